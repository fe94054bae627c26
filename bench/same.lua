-- For wrk: sends the same all the time. Its arguments are a path and a body of JSON.
local said

function init(args)
  said = wrk.format("POST", args[1], {["Content-Type"] = "application/json"}, args[2])
end

function request() return said end
