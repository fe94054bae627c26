local due, reserved, dead, jobs, runs, meta, watch, wake, relay, leaving = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- Takes up to `limit` jobs that wait, those due first, then dead ones, out of their places, and keeps the places in
-- `leaving` until somebody says that the jobs have arrived where they go. What was left there is first. At most 1 MB.
-- Answers for each: id, place ("due 1700000000000000"), head and body, run.
-- include clock plain job

local ENOUGH = 1000000
limit = tonumber(limit)

local function take(set, name)
  local bytes = 0
  local found = redis.call('ZRANGE', set, 0, limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if bytes >= ENOUGH then break end
    local id = found[i]
    bytes = bytes + redis.call('HSTRLEN', jobs, id)
    redis.call('ZREM', set, id)
    redis.call('HSET', leaving, id, name .. ' ' .. text(tonumber(found[i + 1])))
  end
end

if redis.call('HLEN', leaving) == 0 then
  take(due, 'due')
  if redis.call('HLEN', leaving) == 0 then take(dead, 'dead') end
end
local kept, answers = redis.call('HGETALL', leaving), {}
for i = 1, #kept, 2 do
  local id = kept[i]
  local value = redis.call('HGET', jobs, id)
  if value then
    answers[#answers + 1] = {id, kept[i + 1], value, redis.call('HGET', runs, id)}
  else
    redis.call('HDEL', leaving, id)  -- deleted while it left
  end
end
return answers
