local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, rhythm, about, value, next, after = unpack(ARGV, i, i + 5)
--
-- Creates or replaces schedules. If the recurrence is unchanged, the next occurrence stays; else it is `next`.
-- Answers for each 1, or 0 if code declares it.
-- include clock refuse_partitioned job limits handout_limits watch schedule

local FIRST, STRIDE = 2, 6
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, rhythm, about, value, next, after = unpack(ARGV, i, i + 5)
  local may_put = redis.call('HEXISTS', declared, id) == 0
  if may_put then define(id, rhythm, about, value, next, after) end
  answers[#answers + 1] = may_put and 1 or 0
end
note_next_schedule()
return answers
