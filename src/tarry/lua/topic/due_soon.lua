local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, horizon, limit = unpack(ARGV)
--
-- What will be due within the next `horizon` µs, and what may hold it back: at one moment, for a forecast. Changes nothing.
-- At most `limit` jobs are read, those that are due first, and at most 1 MB of them.
-- Answers now, the end of the pause, the topic's limits and what was spent of its rate (or nothing), reservations, those of them
-- whose TTR is over, jobs due within the horizon, then for each: id, state, due, head and body, run.
-- include clock refuse_partitioned order both_places

local ENOUGH = 1000000
local ends = text(now + tonumber(horizon))
local set = redis.call('HMGET', meta, 'paused', 'limited', 'spent')
local answers = {
  now, tonumber(set[1] or 0), set[2], set[3],
  redis.call('ZCARD', reserved), redis.call('ZCOUNT', reserved, '-inf', text(now)), redis.call('ZCOUNT', due, '-inf', ends) + redis.call('ZCOUNT', keyed, '-inf', ends),
}
local found = waiting_after('-inf', '', tonumber(limit), ends)
local bytes = 0
for i = 1, #found, 2 do
  if bytes > ENOUGH then break end
  local value = redis.call('HGET', jobs, found[i]) or ''
  bytes = bytes + #value
  answers[#answers + 1] = {found[i], 'delayed', tonumber(found[i + 1]), value, redis.call('HGET', runs, found[i]), false}
end
return answers
