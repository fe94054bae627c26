local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, moving, moved = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, kept = unpack(ARGV, i, i + 1)
--
-- Adds schedules from another topic, which go on here as they were there. The answer to the last departure of each, by its
-- source, is kept for a month (refused: "-departure"): a repeated call gets the same answers, whatever has become of the
-- schedule here.
-- Answers for each 1, or 0 if another one has the name, if this topic is its own source, by another URL, or if a later
-- departure of that source has arrived. An equal definition goes on as it is.
-- include clock refuse_partitioned job departure limits handout_limits watch schedule

local FIRST, STRIDE, MONTH = 2, 2, 2592000
local answers = {}

local function is_alike(old, new)
  return old.rhythm == new.rhythm and old.about == new.about and old.value == new.value and old.paused == new.paused
end

local function take_in(id, next, declaration, stored)
  local old = redis.call('HGET', plans, id)
  if redis.call('HEXISTS', moving, id) == 1 then return 0 end
  if old then return #old >= SCHEDULE_SIZE and is_alike(unpack_schedule(old), unpack_schedule(stored)) and 1 or 0 end
  redis.call('HSET', plans, id, stored)
  if next ~= '' then redis.call('ZADD', schedules, next, id) end
  if declaration ~= '' then
    redis.call('HSET', declared, id, declaration)
    redis.call('HSETNX', declared, '', string.match(declaration, '^%d+') or '0')
  end
  return 1
end

-- The earlier answer, or nil; and where it is kept.
local function answer_of(id, departure)
  local source, number = departure_of(departure)
  local field = id .. '\n' .. source
  local known = redis.call('HGET', moved, field) or ''
  local _, latest = departure_of(known)
  if known == departure then return 1, field end
  if known == '-' .. departure or latest > number then return 0, field end
  return nil, field
end

for i = FIRST, #ARGV, STRIDE do
  local id, kept = unpack(ARGV, i, i + 1)
  local departure, next, declaration, stored = string.match(kept, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  local result, field = answer_of(id, departure)
  if not result then
    result = take_in(id, next, declaration, stored)
    redis.call('HSET', moved, field, (result == 1 and '' or '-') .. departure)
    redis.call('EXPIRE', moved, MONTH)
  end
  answers[#answers + 1] = result
end
note_next_schedule()
return answers
