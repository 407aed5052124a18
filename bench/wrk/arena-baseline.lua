-- In turn: a sum of the query, one with content of a known length, one with chunked content. With /baseline11?close every tenth
-- request of the thread ends its connection, so that connections have ten requests on average: wrk does not tell a script which
-- connection it writes for.
dofile("report.lua")

local requests = {}
local number = 0
local closes

local function formatted(more)
  local path = "/baseline11?a=13&b=42"
  local head = "POST " .. path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\nContent-Type: text/plain\r\n" .. more
  return {
    "GET " .. path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n" .. more .. "\r\n",
    head .. "Content-Length: 2\r\n\r\n20",
    head .. "Transfer-Encoding: chunked\r\n\r\n2\r\n20\r\n0\r\n\r\n",
  }
end

function init()
  closes = wrk.path:match("close$") ~= nil
  requests = { formatted(""), formatted("Connection: close\r\n") }
end

function request()
  number = number + 1
  local which = (closes and number % 10 == 0) and 2 or 1
  return requests[which][number % 3 + 1]
end
