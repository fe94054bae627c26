local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock, cursor, limit = unpack(ARGV)
--
-- One step through all schedules of a topic. Changes nothing.
-- Answers now, when code last declared anything here, the next cursor, then what get.lua answers.
-- include clock refuse_partitioned

local step = redis.call('HSCAN', plans, cursor, 'COUNT', limit)
local answers = {now, redis.call('HGET', declared, ''), step[1]}
for i = 1, #step[2], 2 do
  local id = step[2][i]
  answers[#answers + 1] = {id, step[2][i + 1], redis.call('ZSCORE', schedules, id), redis.call('HGET', declared, id)}
end
return answers
