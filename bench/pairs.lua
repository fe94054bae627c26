-- For wrk: pops a job, and finishes it with the next request. Its argument is the path of a topic.
local JSON = {["Content-Type"] = "application/json"}
local topic, pop
local held = {}

function init(args)
  topic = args[1]
  pop = wrk.format("POST", topic .. "/pop", JSON, "{}")
end

function request() return table.remove(held) or pop end

function response(_, _, body)
  local id, receipt = body:match('^{"id":"([^"]+)".*"receipt":(%d+)')
  if id then
    held[#held + 1] = wrk.format("POST", topic .. "/jobs/" .. id .. "/finish", JSON, '{"receipt":' .. receipt .. "}")
  end
end
