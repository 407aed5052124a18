dofile("report.lua")
