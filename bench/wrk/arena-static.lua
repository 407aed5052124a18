-- Twenty files in turn, for a client that prefers Brotli; with ?order in the path it says so without weights.
dofile("report.lua")

local names = {
  "page-1.css", "page-2.css", "page-3.css", "page-4.css", "page-5.css",
  "script-1.js", "script-2.js", "script-3.js", "script-4.js", "script-5.js",
  "part-1.html", "part-2.html", "letters-1.woff2", "letters-2.woff2", "drawing-1.svg", "drawing-2.svg",
  "photo-1.webp", "photo-2.webp", "photo-3.webp", "about.json",
}
local requests = {}
local number = 0

function init()
  wrk.headers["Accept-Encoding"] = wrk.path:match("order$") and "br, gzip" or "br;q=1, gzip;q=0.8"
  for at, name in ipairs(names) do
    requests[at] = wrk.format("GET", "/static/" .. name)
  end
end

function request()
  number = number + 1
  return requests[number % #requests + 1]
end
