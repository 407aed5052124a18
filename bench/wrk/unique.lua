-- The path with a query that no other request has.
dofile("report.lua")

local number = 0
local prefix

function setup(thread)
  thread:set("id", tostring(thread):match("0x%w+") or "0")
end

function init()
  prefix = wrk.path .. "?" .. os.time() .. "-" .. id .. "-"
end

function request()
  number = number + 1
  return wrk.format("GET", prefix .. number)
end
