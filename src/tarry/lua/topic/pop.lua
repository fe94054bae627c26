local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, minutes = unpack(KEYS)
local clock, min_jobs, ttr, holder, waiter = unpack(ARGV)
-- each: max_jobs = unpack(ARGV, i, i)
--
-- Hands out up to `max_jobs` due jobs to each caller, in order, at most 4 MB in all, each reserved for its TTR under one receipt.
-- First puts back jobs whose reservation is over, and deletes a few dead jobs that are too old.
-- `waiter`, if given, waits when fewer than `min_jobs` jobs came: then it takes a seat of the watch.
-- Of the due jobs those of the highest priority come first, then those that have been due for longest.
-- Hands out no more than the limits allow, and none that is due after a schedule that has not fired yet: none if jobs have priorities.
--
-- Answers now, receipt, µs until the alarm, seat, what to do at once if no job came (1: pop again, 2: fire the schedules that
-- are due, then pop again; 4 more if the topic keeps finished jobs), the usual TTR in µs, and to each caller its jobs: id, head and
-- body, due. If it is not the first attempt, or has another TTR, instead of due: due, attempt (below 0: the last, to be confirmed), TTR.
-- What only some pops need is included where they need it: making a function costs as much as a small command.
-- include clock job run count flags watch lateness

local ENOUGH, DAY, STEP, MOST_RETURNED, SWEEP, MOST_SKIPPED = 4000000, 86400000000, 500, 200, 16, 1000
local ASK_AGAIN, FIRE, KEEPS, FIRST, FIELDS_PER_JOB = 1, 2, 4, 6, 3  -- the callers' wants begin at argument 6; 3 values for each job
local DEFAULT_TTR, DEFAULT_LIMIT, DEFAULT_KEEP, LARGEST_RECEIPT = 60000000, 20, 30 * DAY, 9007199254740990  -- one more is still exact

local set = redis.call('HMGET', meta, 'last', 'ruled', 'minute', 'missed')
local rules = set[2] and redis.call(
  'HMGET', meta, 'paused', 'ttr', 'max_attempts', 'keep_dead', 'fires', 'limited', 'spent', 'opened', 'keep_finished', 'priorities') or {}
local uses_priorities, limits = rules[10] or '', nil
if rules[6] then
-- include limits
  if not string.find(rules[6], LIMITED) then return redis.error_reply('NEWER limits of the topic') end
  limits = read_limits
end
if waiter ~= '' then redis.call('ZREM', watch, waiter) end  -- the first write is a removal: works with a full memory too

local returned = 0  -- jobs whose reservation was over
local over = redis.call('ZRANGE', reserved, '-inf', now, 'BYSCORE', 'LIMIT', 0, MOST_RETURNED, 'WITHSCORES')
if #over > 0 then
-- include attempts bury priorities expired_reservations
  used = uses_priorities
  returned = put_back(over)
end
local keep_dead = tonumber(rules[4] or DEFAULT_KEEP)
local old = keep_dead > 0 and redis.call('ZRANGE', dead, '-inf', now - keep_dead, 'BYSCORE', 'LIMIT', 0, SWEEP) or {}
if #old > 0 then
-- include sweep_dead
end

limits = limits and limits(unpack(rules, 6, 8))
local paused, next_schedule = tonumber(rules[1] or 0), tonumber(rules[5])
local newest = next_schedule and math.min(now, next_schedule) or now
local fires_first = uses_priorities ~= '' and next_schedule and next_schedule <= now  -- its job may have a higher priority than those that are due
local places_since = limits and math.max(paused, returned > 0 and now or limits.place_freed_at) or paused

local last = tonumber(set[1] or 0) or 0
local receipt = last <= LARGEST_RECEIPT and last % 1 == 0 and math.max(last + 1, now) or now  -- after a damaged one: now
local out, bytes, handed, buried, skipped = {}, 0, 0, 0, 0  -- the last two: jobs that are not handed out; entries of the indexes of priorities

local usual_max_attempts, usual_ttr = tonumber(rules[3] or DEFAULT_LIMIT), tonumber(ttr)
if usual_ttr == 0 then usual_ttr = tonumber(rules[2] or DEFAULT_TTR) end
local bury_job, bury_if_late  -- of lib/unfit_jobs.lua, once the first job needs them

-- Hands out one job: adds to the reservations and runs, unless it is unreadable, or too late.
local function hand_out(id, at, value, run, reserved_args, runs_args)
  local flags, further, own_ttr, own_max_attempts, own_max_lateness, _, _, size = read_head(value or '')
  local is_readable = flags and size <= #value
  if not is_readable or further > 0 or limits then
    if not bury_job then
-- include bury unfit_jobs
      bury_job, bury_if_late = bury_unreadable, bury_late
    end
    if not is_known(further) then return bury_job(id, value, further) end
    if not is_readable then return bury_job(id, value) end
    if bury_if_late(id, at, run, own_max_lateness or limits and limits.max_lateness) then return end
  end
  local attempt, first, fault = 0, 0, ''
  if run then attempt, _, _, first, _, fault = unpack_run(run) end
  attempt = attempt + 1
  local max_attempts = own_max_attempts > 0 and own_max_attempts or usual_max_attempts
  local time = own_ttr > 0 and own_ttr * 1000 or usual_ttr
  local k = #reserved_args
  reserved_args[k + 1], reserved_args[k + 2] = now + time + handed, id
  local answered = attempt < max_attempts and attempt or -attempt
  local stored_limit = answered < 0 and UNCONFIRMED or max_attempts == NO_LIMIT and 0 or max_attempts
  runs_args[k + 1], runs_args[k + 2] = id, pack_run(attempt, stored_limit, receipt, first, holder, fault)
  note_lateness(now - math.max(at, places_since, limits and limits.time_of(handed + 1) or 0), fault)
  local slot = FIELDS_PER_JOB * handed
  out[slot + 1], out[slot + 2], out[slot + 3] = id, value, answered == 1 and time == usual_ttr and at or {at, answered, time}
  handed, bytes = handed + 1, bytes + #value
end

local sets, keep_agreeing = {due}, nil  -- to take from, those of higher priorities first
if uses_priorities ~= '' then
-- include priorities skipped_entries
  keep_agreeing = agreeing
  for priority, index in ipairs(INDEXES) do
    if string.find(uses_priorities, priority, 1, true) then table.insert(sets, 1, index) end
  end
end

-- include take_jobs
local asked = 0
for i = FIRST, #ARGV do asked = asked + ARGV[i] end
local max_jobs = limits and math.min(asked, limits.available()) or asked
if paused <= now and not fires_first then
  local step = 4
  for _, set in ipairs(sets) do
    local may_have_more = true
    while may_have_more and handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full do
      may_have_more = take(set, math.min(max_jobs - handed, step))
      step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
    end
  end
  if handed > 0 then
    if limits then redis.call('HSET', meta, 'spent', limits.consume(handed), 'last', receipt) end
    if not limits then redis.call('HSET', meta, 'last', receipt) end
    change_bucket(0)  -- counts what is in the last one
    for bucket, n in pairs(late) do redis.call('HINCRBY', meta, bucket, n) end
  end
end

local todo = 0
if handed == 0 and next_schedule and math.max(next_schedule, paused) <= now then todo = FIRE end
if handed == 0 and (returned > 0 or buried > 0 or skipped >= MOST_SKIPPED) then todo = ASK_AGAIN end
if handed > 0 and handed < asked and #ARGV > FIRST then todo = ASK_AGAIN end  -- more jobs may be due than fit into one reply
if waiter == '' and handed == 0 then redis.call('HDEL', meta, '') end  -- else a token would be the first write
local minute = math.floor(now / 60000000)
if minute > tonumber(set[3] or 0) and (set[1] or handed > 0) then
-- include totals minutes
end
if set[4] then
-- include missed
  note_alive(set[4], holder)
end
local keeps_waiting = waiter ~= '' and handed < tonumber(min_jobs) and todo ~= ASK_AGAIN
local rate_allows_at, at_concurrency_limit = 0, false
if limits then rate_allows_at, at_concurrency_limit = limits.next_and_full() end
local alarm, seat = update_watch(waiter, keeps_waiting, paused, next_schedule, rate_allows_at, at_concurrency_limit)
local answers = {now, receipt, todo == FIRE and 0 or alarm - now, seat, rules[9] and todo + KEEPS or todo, usual_ttr, out}
if #ARGV > FIRST then
-- include shares
end
return answers
