require "digest"
require "json"
require "sinatra/base"
require "timeout"

# What applications of Sinatra mostly do.
class Site < Sinatra::Base
  enable :sessions
  set :session_secret, "0123456789abcdef" * 8
  set :show_exceptions, false

  get("/") { "<h1>Hello \u00e9</h1>" }
  get("/url") { JSON.generate(url: url("/x?y=1"), scheme: request.scheme, ssl: request.ssl?, ip: request.ip) }
  post("/login") { session[:name] = params["name"]; redirect to("/me"), 303 }
  get("/me") { session[:name] || halt(403, "nobody") }
  get("/error") { raise "on purpose" }
  get("/status/:code") { status params["code"].to_i; "" }
  get("/tag") { etag("one"); last_modified(Time.at(1_700_000_000)); "x" * 1000 }
  get("/file") { send_file(File.join(__dir__, "config.ru"), type: "text/plain", last_modified: Time.at(1_700_000_000)) }
  get("/big") { content_type("application/octet-stream"); "0123456789" * 2_000_000 }
  post("/upload") do
    file = params["file"]
    data = file[:tempfile].read
    JSON.generate(name: file[:filename], bytes: data.bytesize, sum: Digest::SHA256.hexdigest(data), note: params["note"])
  end
  put("/raw") { JSON.generate(sum: Digest::SHA256.hexdigest(request.body.read), type: request.media_type) }
  delete("/raw") { status 204 }
  # The next number is sent when a request has asked for it.
  TURNS = Queue.new
  get "/events" do
    content_type "text/event-stream"
    headers "Cache-Control" => "no-cache"
    stream do |out|
      6.times do |number|
        Timeout.timeout(30) { TURNS.pop }
        out << "id: #{number}\ndata: \u00e9 #{number}\n\n"
      end
    end
  end
  post("/next") { TURNS << true; "" }
  get("/slow") { sleep 0.3; params["n"] }
end

run Site
