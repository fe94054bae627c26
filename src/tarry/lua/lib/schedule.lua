-- A schedule as it is stored: `schedules` has its next occurrence, unless it is paused (while a consumer handles one, the moment
-- from which another consumer may), and `plans` the rest:
--
--   ┌ format 1 ┬ paused 1 ┬ after d ┬ changed d ┬ fired I ┬ skipped I ┬ length H ┬ length I ┬ rhythm ┬ about ┬ head, body ┐
--
-- `after`: occurrences up to then have been handled. `changed`: when it was last defined, which identifies a definition.
-- Head and body are a job's as they are sent (tarry/verbs/schedules/records.py reads the same).

local SCHEDULE_FORMAT, SCHEDULE = 1, '<BBddIIHI'

local SCHEDULE_SIZE = struct.size(SCHEDULE)

-- Whether a newer version wrote the plan: then it is left as it is.
local function is_newer(stored) return #stored >= SCHEDULE_SIZE and string.byte(stored) ~= SCHEDULE_FORMAT end

local function is_readable(stored) return #stored >= SCHEDULE_SIZE and string.byte(stored) == SCHEDULE_FORMAT end

local function unpack_schedule(stored)
  local format, paused, after, changed, fired, skipped, r, a, at = struct.unpack(SCHEDULE, stored)
  return {
    paused = paused, after = after, changed = changed, fired = fired, skipped = skipped,
    rhythm = string.sub(stored, at, at + r - 1),
    about = string.sub(stored, at + r, at + r + a - 1),
    value = string.sub(stored, at + r + a),
  }
end

local function pack_schedule(plan)
  local head = struct.pack(
    SCHEDULE, SCHEDULE_FORMAT, plan.paused, plan.after, plan.changed, plan.fired, plan.skipped, #plan.rhythm, #plan.about)
  return head .. plan.rhythm .. plan.about .. plan.value
end

local function write_schedule(id, plan) redis.call('HSET', plans, id, pack_schedule(plan)) end

-- Defines a schedule. An older definition's pause and counts are kept, and its next occurrence if the recurrence is the same.
local function define(id, rhythm, about, value, next, after)
  local old = redis.call('HGET', plans, id)
  old = old and is_readable(old) and unpack_schedule(old)
  local plan = {
    paused = old and old.paused or 0, fired = old and old.fired or 0, skipped = old and old.skipped or 0,
    changed = math.max(old and old.changed + 1 or 0, now),
    after = tonumber(after), rhythm = rhythm, about = about, value = value,
  }
  if old and old.rhythm == rhythm then
    plan.after = old.after
  elseif plan.paused == 0 then
    redis.call('ZADD', schedules, next, id)
  end
  write_schedule(id, plan)
end

-- Notes in `meta` when the next schedule is due: so pop need not read the schedules, and waiting consumers wait for it too.
local function note_next_schedule()
  redis.call('HDEL', meta, '')  -- a removal first (clock.lua)
  local head = redis.call('ZRANGE', schedules, 0, 0, 'WITHSCORES')[2]
  if head then
    redis.call('HSET', meta, 'fires', head, 'ruled', 1)
  else
    redis.call('HDEL', meta, 'fires')
  end
  update_watch('', false, handout_limits())
end
