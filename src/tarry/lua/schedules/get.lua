local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id = unpack(ARGV, i, i)
--
-- Reads schedules and changes nothing. Answers now, when code last declared anything here, then for each: id, plan, next
-- occurrence or nothing, and its declaration or nothing; or nothing.
-- include clock refuse_partitioned

local answers = {now, redis.call('HGET', declared, '')}
for i = 2, #ARGV do
  local id = ARGV[i]
  local plan = redis.call('HGET', plans, id)
  answers[#answers + 1] = plan and {id, plan, redis.call('ZSCORE', schedules, id), redis.call('HGET', declared, id)} or false
end
return answers
