-- 16 requests in each write.
dofile("report.lua")

local batch

function init()
  batch = string.rep(wrk.format("GET"), 16)
end

function request()
  return batch
end
