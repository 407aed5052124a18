-- Seven numbers of items in turn, each with a factor.
dofile("report.lua")

local pairs_of = { { 1, 3 }, { 5, 7 }, { 10, 2 }, { 15, 5 }, { 25, 4 }, { 40, 8 }, { 50, 6 } }
local requests = {}
local number = 0

function init()
  for at, pair in ipairs(pairs_of) do
    requests[at] = wrk.format("GET", string.format("/json/%d?m=%d", pair[1], pair[2]))
  end
end

function request()
  number = number + 1
  return requests[number % #requests + 1]
end
