local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- The schedules that are due, at most `limit`, the longest overdue first. Changes nothing but damaged ones, and those of a
-- newer version, which are left to newer clients and tried again in a minute.
-- Answers now, then for each: id, its occurrence, plan.
-- include clock job limits handout_limits watch schedule

local found = redis.call('ZRANGE', schedules, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
local RETRY = 60000000
local answers, lost = {now}, false
for i = 1, #found, 2 do
  local plan = redis.call('HGET', plans, found[i])
  if plan and is_newer(plan) then
    redis.call('ZREM', schedules, found[i])  -- the first write is a removal: works with a full memory too
    redis.call('ZADD', schedules, text(now + RETRY), found[i])
    lost = true
  elseif plan and #plan >= SCHEDULE_SIZE then
    answers[#answers + 1] = {found[i], tonumber(found[i + 1]), plan}
  else
    lost = redis.call('ZREM', schedules, found[i]) == 1
  end
end
if lost or #found == 0 then note_next_schedule() end
return answers
