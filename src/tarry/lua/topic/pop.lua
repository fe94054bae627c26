local due, reserved, dead, jobs, runs, meta, watch, wake, relay, attempts, priority1, priority2, priority3, minutes, keyed, by_key, turns, paces = unpack(KEYS)
local clock, min_jobs, ttr, holder, waiter = unpack(ARGV)
-- each: max_jobs = unpack(ARGV, i, i)
--
-- Hands out up to `max_jobs` due jobs to each caller, in order, at most 4 MB in all, and 250 jobs of a topic with keys,
-- each reserved for its TTR under one receipt.
-- First puts back jobs whose reservation is over, and deletes a few dead jobs that are too old.
-- `waiter`, if given, waits when fewer than `min_jobs` jobs came: then it takes a seat of the watch.
-- Of the due jobs those of the highest priority come first, then those that have been due for longest.
-- Hands out no more than the limits allow, and none that is due after a schedule that has not fired yet: none if jobs have priorities.
--
-- Answers now, receipt, µs until the alarm, seat, what to do at once if no job came (1: pop again, 2: fire the schedules that
-- are due, then pop again; 4 more if the topic keeps finished jobs), the usual TTR in µs, and to each caller its jobs: id, head and
-- body, due. If it is not the first attempt, or has another TTR, instead of due: due, attempt (below 0: the last, to be confirmed), TTR.
-- What only some pops need is included where they need it: making a function costs as much as a small command.
-- include clock job

local ENOUGH, DAY, FEW, STEP, MOST_RETURNED, SWEEP, MOST_SKIPPED = 4000000, 86400000000, 4, 500, 200, 16, 1000
local ASK_AGAIN, FIRE, KEEPS, FIRST, FIELDS_PER_JOB = 1, 2, 4, 6, 3  -- the callers' wants begin at argument 6; 3 values for each job
local DEFAULT_TTR, DEFAULT_LIMIT, DEFAULT_KEEP = 60000000, 20, 30 * DAY

if keyed and #ARGV == FIRST and ARGV[FIRST] == '1' and tonumber(min_jobs) <= 1 then
-- include usual_pop_with_key
end
local set, rules = redis.call('HMGET', meta, 'last', 'ruled', 'minute', 'missed'), {}
if set[2] then
  rules = redis.call(
    'HMGET', meta, 'paused', 'ttr', 'max_attempts', 'keep_dead', 'fires', 'limited', 'spent', 'opened', 'keep_finished', 'priorities', 'bytes', 'keys')
  if rules[12] and not keyed then return redis.error_reply('KEYED a job of the topic has a key') end
end
local uses_priorities, limits = rules[10] or '', nil
if rules[6] then
-- include limits
  if not string.find(rules[6], LIMITED) then return redis.error_reply('NEWER limits of the topic') end
  limits = read_limits
end
local scales  -- of lib/bytes.lua, where the topic counts the bytes that wait
if rules[11] then
-- include flags order bytes
  read_weight(rules[11])
  scales = {note_in = note_in, note_out = note_out, keep = keep_bytes}
end
if waiter ~= '' then redis.call('ZREM', watch, waiter) end  -- a removal first (clock.lua)

local returned = 0  -- jobs whose reservation was over
local next_end = tonumber(redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or math.huge)
if next_end <= now then
-- include run count flags attempts bury priorities by_key turns expired_reservations
  used, has_keys = uses_priorities, rules[12]
  returned = put_back(redis.call('ZRANGE', reserved, '-inf', now, 'BYSCORE', 'LIMIT', 0, MOST_RETURNED, 'WITHSCORES'))
  next_end = tonumber(redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or math.huge)
end
local keep_dead = tonumber(rules[4] or DEFAULT_KEEP)
local died_first = keep_dead > 0 and redis.call('ZRANGE', dead, 0, 0, 'WITHSCORES')[2]
if died_first and died_first + 0 <= now - keep_dead then
  local old = redis.call('ZRANGE', dead, '-inf', now - keep_dead, 'BYSCORE', 'LIMIT', 0, SWEEP)
-- include count sweep_dead
end

limits = limits and limits(unpack(rules, 6, 8))
local paused, next_schedule = tonumber(rules[1] or 0), tonumber(rules[5])
local newest = next_schedule and math.min(now, next_schedule) or now
local fires_first = uses_priorities ~= '' and next_schedule and next_schedule <= now  -- its job may have a higher priority than those that are due
local places_since = limits and math.max(paused, returned > 0 and now or limits.place_freed_at) or paused
local usual_max_attempts, usual_ttr = tonumber(rules[3] or DEFAULT_LIMIT), tonumber(ttr)
if usual_ttr == 0 then usual_ttr = tonumber(rules[2] or DEFAULT_TTR) end
-- include next_receipt

local out, bytes, handed, buried, skipped = {}, 0, 0, 0, 0  -- the last two: jobs that are not handed out; entries of the indexes of priorities
local sets, keep_agreeing = {due}, nil  -- to take from, those of higher priorities first
if uses_priorities ~= '' then
-- include priorities skipped_entries
  keep_agreeing = agreeing
  for priority, index in ipairs(INDEXES) do
    if string.find(uses_priorities, priority, 1, true) then table.insert(sets, 1, index) end
  end
end

-- Where jobs have keys: which were handed out, the key of one, whether a key that had its turn had no job, the first turn (lib/take_by_turns.lua).
local key_rules = rules[12] and redis.call('HMGET', meta, 'key_limits', 'turn', 'key_pauses', 'own_turn', 'recount', 'keyed_next') or {}
local owners, is_given, counted_for, is_in_vain, next_turn = nil, nil, nil, false, tonumber(key_rules[6] or nil)
local is_full, next_due, late, bucket, low, high = false, nil, {}, nil, 1, 0  -- whether the next job does not fit; numbers by lateness
-- The usual job comes for the first time, is not too late, and its head has no fields but a nonce. Others are judged by a function.
local USUAL_SIZE, may_be_usual, usual_run, judge = HEAD_SIZE + NONCE_SIZE, usual_max_attempts > 1, nil, nil
local usual_max_lateness = limits and limits.max_lateness or math.huge
local asked = 0
for i = FIRST, #ARGV do asked = asked + ARGV[i] end
local max_jobs = limits and math.min(asked, limits.available()) or asked
if paused <= now and not fires_first then
  local step = FEW
  if rules[12] then
-- include hand_out_by_turns
    sets = {}
    if has_turned then  -- one write of `meta` for all
      redis.call('HSET', meta, 'keyed_next', next_turn and text(next_turn) or '', 'turn', text(ring), 'own_turn', text(own_turn), unpack(handed > 0 and {'last', receipt} or {}))
    end
  end
  for _, set in ipairs(sets) do
    local may_have_more = true
    while may_have_more and handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full do
-- include take_jobs
      step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
    end
  end
  if handed > 0 then
    if limits then redis.call('HSET', meta, 'spent', limits.consume(handed), 'last', receipt) end
    if not limits and not rules[12] then redis.call('HSET', meta, 'last', receipt) end
    for name, n in pairs(late) do redis.call('HINCRBY', meta, name, n) end
  end
end

if scales then scales.keep() end
if next_turn then next_due = math.min(next_turn, tonumber(next_due or redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or math.huge)) end
local todo = 0
if handed == 0 and next_schedule and math.max(next_schedule, paused) <= now then todo = FIRE end
if handed == 0 and (returned > 0 or buried > 0 or skipped >= MOST_SKIPPED or is_in_vain) then todo = ASK_AGAIN end
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
-- include watch
local alarm, seat = update_watch(
  waiter, keeps_waiting, paused, next_schedule, rate_allows_at, at_concurrency_limit, next_due, next_end)
local answers = {now, receipt, todo == FIRE and 0 or alarm - now, seat, rules[9] and todo + KEEPS or todo, usual_ttr, out}
if #ARGV > FIRST then
-- include shares
end
return answers
