local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock, what = unpack(ARGV)
-- each: id, next, after = unpack(ARGV, i, i + 2)
--
-- "pause", "resume" (from `next` on; occurrences in the pause get no jobs) or "delete".
-- Answers for each 1, or 0 if there is no such schedule.
-- include clock refuse_partitioned job limits handout_limits watch schedule

local FIRST, STRIDE = 3, 3
for i = FIRST, #ARGV, STRIDE do
  local stored = redis.call('HGET', plans, ARGV[i])
  if stored and what ~= 'delete' and is_newer(stored) then return redis.error_reply('NEWER schedule ' .. ARGV[i]) end
end
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, next, after = unpack(ARGV, i, i + 2)
  local stored = redis.call('HGET', plans, id)
  if stored and what == 'delete' then
    redis.call('ZREM', schedules, id)
    redis.call('HDEL', plans, id)
    redis.call('HDEL', declared, id)
  elseif stored and #stored >= SCHEDULE_SIZE then
    local plan = unpack_schedule(stored)
    if what == 'pause' then
      redis.call('ZREM', schedules, id)
      plan.paused = 1
    elseif plan.paused == 1 then
      if next ~= '' then redis.call('ZADD', schedules, next, id) end
      plan.paused, plan.after = 0, tonumber(after)
    end
    write_schedule(id, plan)
  end
  answers[#answers + 1] = stored and 1 or 0
end
note_next_schedule()
return answers
