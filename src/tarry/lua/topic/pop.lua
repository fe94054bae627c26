local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, minutes = unpack(KEYS)
local clock, min_jobs, ttr, holder, waiter = unpack(ARGV)
-- each: max_jobs = unpack(ARGV, i, i)
--
-- Hands out up to `max_jobs` due jobs to each caller, in order, at most 4 MB in all, each reserved for its TTR under one receipt.
-- First puts back jobs whose reservation is over, and deletes a few dead jobs that are too old.
-- `waiter`, if given, waits when fewer than `min_jobs` jobs came: then it takes a seat of the watch.
--
-- Of the due jobs those of the highest priority come first, then those that have been due for longest.
-- Hands out no more than the topic's limits allow, and none that is due after a schedule that has not fired yet; none at all, if
-- jobs may have priorities.
--
-- Answers now, receipt, µs until the alarm, seat, what to do at once if no job came (1: pop again, 2: fire the schedules that
-- are due, then pop again; 4 more if the topic keeps finished jobs), and to each caller its jobs: id, head and body, attempt (below 0: the last, to be confirmed), due,
-- TTR in µs.
-- include clock job limits watch attempts bury unfit_jobs priorities skipped_entries expired_reservations lateness shares totals minutes

local ENOUGH, DAY, STEP = 4000000, 86400000000, 500
local ASK_AGAIN, FIRE, KEEPS, FIRST, FIELDS_PER_JOB = 1, 2, 4, 6, 5  -- the callers' wants begin at argument 6; 5 values for each job
local DEFAULT_TTR, DEFAULT_LIMIT, DEFAULT_KEEP = 60000000, 20, 30 * DAY

local set = redis.call('HMGET', meta, 'last', 'ruled', 'minute')
local rules = set[2] and redis.call(
  'HMGET', meta, 'paused', 'ttr', 'max_attempts', 'keep', 'fires', 'limited', 'spent', 'opened', 'keep_finished', 'priorities') or {}
used = rules[10] or ''
if rules[6] and not string.find(rules[6], LIMITED) then return redis.error_reply('NEWER limits of the topic') end
if waiter ~= '' then redis.call('ZREM', watch, waiter) end  -- the first write is a removal: works with a full memory too
local returned = put_back_expired()
sweep_dead(tonumber(rules[4] or DEFAULT_KEEP))

local paused, next_schedule, limits = tonumber(rules[1] or 0), tonumber(rules[5]), rules[6] and read_limits(unpack(rules, 6, 8))
local newest = next_schedule and math.min(now, next_schedule) or now
local fires_first = used ~= '' and next_schedule and next_schedule <= now  -- its job may have a higher priority than those that are due
local places_since = limits and math.max(paused, returned > 0 and now or limits.place_freed_at) or paused

local receipt = math.max(tonumber(set[1] or 0) + 1, now)
local out, bytes, handed = {}, 0, 0

local usual_max_attempts, usual_ttr = tonumber(rules[3] or DEFAULT_LIMIT), tonumber(ttr)
if usual_ttr == 0 then usual_ttr = tonumber(rules[2] or DEFAULT_TTR) end

-- Hands out one job: adds to the reservations and runs, unless it is unreadable, or too late.
local function hand_out(id, at, value, run, reserved_args, runs_args)
  if not value or #value < HEAD_SIZE or string.byte(value) ~= FORMAT then return set_aside(id, value) end
  local _, _, flags, own_ttr, own_max_attempts = struct.unpack(HEAD, value)
  if flags > RAW and not is_known(flags) then return set_aside(id, value, flags) end
  if headers_end(value, flags) > #value then return set_aside(id, value) end
  if limits or flags >= HAS_MAX_LATENESS then
    if is_too_late(id, at, flags, value, run, limits and limits.max_lateness) then return end
  end
  local attempt, first, fault = 0, 0, ''
  if run then attempt, _, _, first, _, fault = unpack_run(run) end
  attempt = attempt + 1
  local max_attempts = own_max_attempts > 0 and own_max_attempts or usual_max_attempts
  local time = own_ttr > 0 and own_ttr * 1000 or usual_ttr
  local k = #reserved_args
  reserved_args[k + 1], reserved_args[k + 2] = now + time + handed, id
  local answered = attempt < max_attempts and attempt or -attempt
  if answered < 0 then max_attempts = UNCONFIRMED elseif max_attempts == NO_LIMIT then max_attempts = 0 end
  runs_args[k + 1], runs_args[k + 2] = id, pack_run(attempt, max_attempts, receipt, first, holder, fault)
  note_lateness(now - math.max(at, places_since, limits and limits.time_of(handed + 1) or 0))
  local slot = FIELDS_PER_JOB * handed
  out[slot + 1], out[slot + 2], out[slot + 3], out[slot + 4], out[slot + 5] = id, value, answered, at, time
  handed, bytes = handed + 1, bytes + #value
end

local is_full = false  -- whether the next job does not fit

-- Takes jobs of `due` or of an index, as many as fit: the size of the first few tells how many to read next. Answers whether there
-- may be more.
local function take(set, max_jobs)
  local reads = skipped > 0 and set ~= due and STEP or max_jobs  -- after one entry was skipped, there may be many
  local found = redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
  if #found == 0 then return false end
  local may_have_more = #found == 2 * reads
  if set ~= due then found = agreeing(set, found, max_jobs) end
  if #found == 0 then return may_have_more end
  local ids, gone, reserved_args, runs_args = {}, {}, {}, {}
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  local values = redis.call('HMGET', jobs, unpack(ids))
  local known = redis.call('HMGET', runs, unpack(ids))
  local size = bytes
  for i, id in ipairs(ids) do
    size = size + #(values[i] or '')
    is_full = size > ENOUGH and handed + i > 1
    if is_full then break end
    gone[i] = id
  end
  if #gone == 0 then return false end
  redis.call('ZREM', due, unpack(gone))
  if set ~= due then redis.call('ZREM', set, unpack(gone)) end
  for i, id in ipairs(gone) do hand_out(id, tonumber(found[2 * i]), values[i], known[i], reserved_args, runs_args) end
  if #reserved_args > 0 then
    redis.call('ZADD', reserved, unpack(reserved_args))
    redis.call('HSET', runs, unpack(runs_args))
  end
  return may_have_more
end

local asked = sum_of_counts(FIRST)
local max_jobs = limits and math.min(asked, limits.available()) or asked
if paused <= now and not fires_first then
  local step = 4
  local function may_take()
    return handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full
  end
  local function take_all(set)
    while may_take() and take(set, math.min(max_jobs - handed, step)) do
      step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
    end
  end
  for priority = used == '' and 0 or #INDEXES, 1, -1 do
    if string.find(used, priority, 1, true) then take_all(INDEXES[priority]) end
  end
  take_all(due)
  if handed > 0 then
    if limits then redis.call('HSET', meta, 'spent', limits.consume(handed), 'last', text(receipt)) end
    if not limits then redis.call('HSET', meta, 'last', text(receipt)) end
    write_lateness()
  end
end

local todo = 0
if handed == 0 and next_schedule and math.max(next_schedule, paused) <= now then todo = FIRE end
if handed == 0 and (returned > 0 or buried > 0 or skipped >= MOST_SKIPPED) then todo = ASK_AGAIN end
if handed > 0 and handed < asked and #ARGV > FIRST then todo = ASK_AGAIN end  -- more jobs may be due than fit into one reply
if waiter == '' and handed == 0 then redis.call('HDEL', meta, '') end  -- else a token would be the first write
if set[1] or handed > 0 then keep_minute(set[3], not set[1]) end
local keeps_waiting = waiter ~= '' and handed < tonumber(min_jobs) and todo ~= ASK_AGAIN
local rate_allows_at, at_concurrency_limit = 0, false
if limits then rate_allows_at, at_concurrency_limit = limits.next_and_full() end
local alarm, seat = update_watch(waiter, keeps_waiting, paused, next_schedule, rate_allows_at, at_concurrency_limit)
return share_out({now, receipt, todo == FIRE and 0 or alarm - now, seat, rules[9] and todo + KEEPS or todo}, FIRST, out, FIELDS_PER_JOB)
