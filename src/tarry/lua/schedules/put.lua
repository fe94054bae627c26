local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, rhythm, about, value, next, after = unpack(ARGV, i, i + 5)
--
-- Defines schedules, or defines them anew. One whose rhythm stays goes on where it is; another begins at `next`.
-- Answers for each 1, or 0 where code declares it.
-- include clock refuse_partitioned job limits settle_args watch schedule

local FIRST, STRIDE = 2, 6
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, rhythm, about, value, next, after = unpack(ARGV, i, i + 5)
  local unlock = redis.call('HEXISTS', declared, id) == 0
  if unlock then define(id, rhythm, about, value, next, after) end
  answers[#answers + 1] = unlock and 1 or 0
end
note_next_schedule()
return answers
