require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "digest"

# A site as its users write it, in one file.
class Site < Rails::Application
  config.load_defaults 6.1
  config.root = Dir.home
  config.eager_load = false
  config.consider_all_requests_local = false
  config.secret_key_base = "0123456789abcdef" * 8
  config.logger = Logger.new($stdout)
  config.session_store :cookie_store, key: "_site", secure: false
  # Other names in Host, or X-Forwarded-Host, are refused.
  config.hosts = ["127.0.0.1", "localhost"]
  # What is below /secure is for https only, and so are the cookies that are set there.
  config.force_ssl = true
  config.ssl_options = { redirect: { exclude: ->(request) { !request.path.start_with?("/secure") } } }
  # How long a request took differs each time.
  config.middleware.delete Rack::Runtime

  routes.append do
    root to: "pages#index"
    %w[info tag secure big file broken where status].each { |name| get name, controller: "pages", action: name }
    post "login", to: "logins#create"
    get "me", to: "logins#show"
    delete "login", to: "logins#destroy"
    resources :notes, only: %i[index show create update destroy]
    post "upload", to: "files#create"
    put "raw", to: "files#raw"
    get "events", to: "events#index"
    post "next", to: "events#push"
    get "ended", to: "events#ended"
  end
end

Site.initialize!

class Note < ActiveRecord::Base
  validates :text, presence: true
end

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
end

# What can be read.
class PagesController < ApplicationController
  FORM = <<~PAGE
    <h1>Héllo</h1><p><%= flash[:said] %></p>
    <%= form_with(url: "/login", local: true) do |form| %><%= form.text_field :name %><% end %>
  PAGE

  def index = render(inline: FORM)

  def info
    render json: { url: request.original_url, base: request.base_url, ssl: request.ssl?, ip: request.remote_ip }
  end

  def tag
    render plain: "x" * 1000 if stale?(etag: "one", last_modified: Time.at(1_700_000_000).utc, public: true)
  end

  def secure
    cookies[:seen] = "yes"
    render(plain: "only by https")
  end

  def where = redirect_to(info_url)
  def status = head(params[:code].to_i)
  def broken = raise("on purpose")
  def file = send_file(File.join(__dir__, "config.ru"), type: "text/plain", filename: "grüße.rb", disposition: "attachment")

  # It comes in pieces, whose number nobody knows.
  def big
    headers["Content-Type"] = "application/octet-stream"
    headers["Last-Modified"] = Time.at(1_700_000_000).httpdate
    self.response_body = Enumerator.new { |pieces| 200.times { pieces << "0123456789" * 10_000 } }
  end
end

# Who is there: in a cookie that is encrypted.
class LoginsController < ApplicationController
  def create
    reset_session
    session[:name] = params[:name]
    cookies.signed[:last] = { value: params[:name], httponly: true }
    redirect_to root_url, flash: { said: "welcome, #{params[:name]}" }
  end

  def show
    session[:name] ? render(plain: "#{session[:name]} #{cookies.signed[:last]}") : head(:forbidden)
  end

  def destroy
    reset_session
    head :no_content
  end
end

# A table, in JSON.
class NotesController < ApplicationController
  skip_forgery_protection
  rescue_from(ActiveRecord::RecordNotFound) { head :not_found }

  def index
    notes = Note.order(:id).limit(50).offset(50 * params[:page].to_i)
    render json: notes.as_json(only: %i[id text]) if stale?(etag: notes.map(&:text))
  end

  def show = render(json: Note.find(params[:id]).as_json(only: %i[id text]))

  # One writer at a time: the threads of SQLite's library wait for each other otherwise.
  WRITER = Mutex.new

  def create
    note = Note.new(text: params[:text])
    return render(json: note.errors, status: :unprocessable_entity) unless WRITER.synchronize { note.save }

    render json: { id: note.id }, status: :created, location: note_url(note)
  end

  def update = Note.find(params[:id]).update!(text: params[:text]) && head(:no_content)
  def destroy = Note.find(params[:id]).destroy && head(:no_content)
end

# What is sent.
class FilesController < ApplicationController
  skip_forgery_protection

  def create
    file = params.require(:file)
    render json: { name: file.original_filename, bytes: file.size, sum: Digest::SHA256.hexdigest(file.read), note: params[:note] }
  end

  def raw = render(json: { sum: Digest::SHA256.hexdigest(request.body.read), type: request.media_type })
end

# Server-sent events: the next one when a request has asked for it.
class EventsController < ApplicationController
  include ActionController::Live
  skip_forgery_protection

  TURNS = Hash.new { |all, who| all[who] = Queue.new }
  ENDED = Queue.new

  def index
    response.headers["Content-Type"] = "text/event-stream"
    response.headers["Last-Modified"] = "Thu, 01 Jan 2026 00:00:00 GMT"
    events = SSE.new(response.stream, event: "turn")
    events.write({ who: params[:who] })
    loop do
      turn = TURNS[params[:who]].pop
      break if turn == "end"

      events.write({ turn: turn, text: "é" }, id: turn)
    end
  rescue ActionController::Live::ClientDisconnected
    ENDED << params[:who]
  ensure
    response.stream.close
  end

  def push
    TURNS[params[:who]] << params[:turn]
    head :no_content
  end

  def ended = render(plain: ENDED.empty? ? "" : ENDED.pop)
end

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:notes, force: true) { |table| table.text :text } }
run Site
