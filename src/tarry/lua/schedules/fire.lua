local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock, limit = unpack(ARGV)
-- each: id, changed, before, next, after, skipped, occurrences = unpack(ARGV, i, i + 6)
--
-- Adds the jobs of a schedule's occurrences ("1700000000000000 2023-11-14T22:13:20Z …") and moves it on to the next one, if it
-- is as it was read, because nobody has changed or paused it, or handled an occurrence after `before`. So a second client, or a repeated
-- call, adds nothing. No next: it has ended. The job of an occurrence is named after both: if a job of that name exists, none is
-- added.
-- Then reserves up to `limit` schedules that are due for the caller, those that have been due for longest first, at most 1 MB. For
-- RESERVED µs nobody else gets them: so many consumers share the work. After it another one does what a dead one has left.
-- Removes damaged ones. Leaves those of a newer version to newer clients for a minute.
--
-- A schedule adds no more jobs than the topic has room for (lib/bounds.lua). With the occurrences that are left it is due again after WAIT.
--
-- Answers now; for each how many jobs were added, or -1 if it was not as it was read, or -2 less those that were added if the topic is full; the reserved
-- ones: id, plan without the head and body of its jobs, the size of these.
-- include clock job nonce flags limits handout_limits watch schedule priorities by_key turns

local FIRST, STRIDE, RESERVED, RETRY, WAIT, ENOUGH = 3, 7, 1000000, 60000000, 5000000, 1000000
local stamp = struct.pack(MOMENT, now)

local bounds = #ARGV >= FIRST and redis.call('HGET', meta, 'bounds')
local gate
if bounds then
-- include bounds
  gate = {has_room_for = has_room_for, enter = enter, keep = keep_bytes, size = body_size}
end

local function plan_as_read(id, changed, before)
  local stored = redis.call('HGET', plans, id)
  local plan = stored and is_readable(stored) and unpack_schedule(stored)
  local is_same = plan and plan.paused == 0 and plan.changed == tonumber(changed) and plan.after == tonumber(before)
  return is_same and plan
end

-- Adds the jobs of one schedule, and puts them into `scores`, for `due`. Answers how many; if the topic is full before all are added, also that, and the
-- last occurrence that is handled, if one is.
local function add_jobs(id, value, occurrences, scores)
  local priority, added, last = priority_of(string.byte(value) or 0), 0, nil
  for moment, name in string.gmatch(occurrences, '(%d+) (%S+)') do
    local job = id .. '@' .. name
    if gate and not gate.has_room_for(1, gate.size(stamp .. value)) and redis.call('HEXISTS', jobs, job) == 0 then return added, true, last end
    if redis.call('HSETNX', jobs, job, stamp .. value) == 1 then
      if gate then gate.enter(job, moment, stamp .. value) end
      if not enter(job, moment, stamp .. value) then
        scores[#scores + 1], scores[#scores + 2] = moment, job
        if priority > 0 then index_jobs(priority, {moment, job}) end
      end
      added = added + 1
    end
    last = moment
  end
  return added
end

local plan_of, ids, counts = {}, {}, {}
for i = FIRST, #ARGV, STRIDE do
  plan_of[i] = plan_as_read(unpack(ARGV, i, i + 2))
  if plan_of[i] then ids[#ids + 1] = ARGV[i] end
end
if #ids > 0 then
  redis.call('ZREM', schedules, unpack(ids))  -- a removal first (clock.lua)
end
local scores, moved, written, held = {}, {}, {}, 0
for i = FIRST, #ARGV, STRIDE do
  local id, _, _, next, after, skipped, occurrences = unpack(ARGV, i, i + 6)
  local plan, added = plan_of[i], -1
  if plan then
    local is_full, last
    added, is_full, last = add_jobs(id, plan.value, occurrences, scores)
    if is_full then next, held = text(now + WAIT), held + 1 end
    if next ~= '' then moved[#moved + 1], moved[#moved + 2] = next, id end
    if last or not is_full then
      plan.after, plan.fired, plan.skipped = tonumber(is_full and last or after), plan.fired + added, plan.skipped + tonumber(skipped)
      written[#written + 1], written[#written + 2] = id, pack_schedule(plan)
    end
    if is_full then added = -2 - added end
  end
  counts[#counts + 1] = added
end
if #scores > 0 then redis.call('ZADD', due, unpack(scores)) end
if #moved > 0 then redis.call('ZADD', schedules, unpack(moved)) end
if #written > 0 then redis.call('HSET', plans, unpack(written)) end
if held > 0 then redis.call('HINCRBY', meta, 'n:held', held) end
if gate then gate.keep() end
keep_turns()

local taken, leases, reserved_rows, size = {}, {}, {}, 0
local found = limit ~= '0' and redis.call('ZRANGE', schedules, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, limit) or {}
for _, id in ipairs(found) do
  if size > ENOUGH then break end
  local stored = redis.call('HGET', plans, id)
  taken[#taken + 1] = id
  if stored and is_readable(stored) then
    local value_size = #unpack_schedule(stored).value
    reserved_rows[#reserved_rows + 1] = {id, string.sub(stored, 1, #stored - value_size), value_size}
    leases[#leases + 1], leases[#leases + 2] = text(now + RESERVED), id
    size = size + #stored
  elseif stored and is_newer(stored) then
    leases[#leases + 1], leases[#leases + 2] = text(now + RETRY), id
  end
end
if #taken > 0 then redis.call('ZREM', schedules, unpack(taken)) end
if #leases > 0 then redis.call('ZADD', schedules, unpack(leases)) end
note_next_schedule()
return {now, counts, reserved_rows}
