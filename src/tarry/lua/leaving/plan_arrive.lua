local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, moving, moved = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, kept = unpack(ARGV, i, i + 1)
--
-- Schedules come from another topic and go on here where they were there. Which departure has arrived is kept for a month: a
-- move that was broken off and goes on finds it, whatever has become of the schedule here.
-- Answers for each 1, or 0 where another one has the name, or this very topic is the one it comes from, by another URL. One
-- that is defined alike goes on as it is.
-- include clock plain job limits gates watch plan

local FIRST, STRIDE, MONTH = 2, 2, 2592000
local answers = {}

local function is_alike(old, new)
  return old.rhythm == new.rhythm and old.about == new.about and old.value == new.value and old.paused == new.paused
end

for i = FIRST, #ARGV, STRIDE do
  local id, kept = unpack(ARGV, i, i + 1)
  local departure, next, said, stored = string.match(kept, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  local old, arrived = redis.call('HGET', plans, id), 1
  if redis.call('HEXISTS', moving, id) == 1 then
    arrived = 0
  elseif redis.call('HGET', moved, id) ~= departure then
    if old then
      arrived = #old >= PLAN_SIZE and is_alike(unpack_plan(old), unpack_plan(stored)) and 1 or 0
    else
      redis.call('HSET', plans, id, stored)
      if next ~= '' then redis.call('ZADD', schedules, next, id) end
      if said ~= '' then
        redis.call('HSET', declared, id, said)
        redis.call('HSETNX', declared, '', string.match(said, '^%d+') or '0')
      end
    end
    if arrived == 1 then
      redis.call('HSET', moved, id, departure)
      redis.call('EXPIRE', moved, MONTH)
    end
  end
  answers[#answers + 1] = arrived
end
tell_of_schedules()
return answers
