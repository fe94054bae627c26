-- For wrk: sends the same request all the time. Its arguments are a path and a JSON body.
local post_request

function init(args)
  post_request = wrk.format("POST", args[1], {["Content-Type"] = "application/json"}, args[2])
end

function request() return post_request end
