-- /many/000.txt to /many/999.txt at random; the requests are formatted beforehand, so that wrk stays light.
dofile("report.lua")

local requests = {}

function init()
  math.randomseed(20261120)
  for number = 0, 999 do
    requests[number + 1] = wrk.format("GET", string.format("/many/%03d.txt", number))
  end
end

function request()
  return requests[math.random(1000)]
end
