dofile("report.lua")
-- The coding that the client accepts stands in the query.
function init(args)
  wrk.headers["Accept-Encoding"] = wrk.path:match("coding=(%w+)")
end
