local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, finished, results, leaving, keyed, by_key, turns, paces = unpack(KEYS)
local clock, lately = unpack(ARGV)
--
-- The numbers of a topic. A reservation whose TTR is over counts as ready. Changes nothing.
-- Added jobs are not counted by a counter: their number is the jobs that exist, and those that were removed.
-- Answers now, delayed, ready, reserved, dead, next due, oldest ready, seats, jobs, why ready jobs wait (or nothing), until
-- when, meta, retrying, finished jobs that are kept, dead jobs that died in the last `lately` µs, when the last one died,
-- reservations whose TTR is over, jobs that an interrupted move has left between topics (and one more), delayed jobs that fall due
-- within 1, 5 and 15 minutes, ready jobs that their keys hold back, since when the first of the others could go.
-- include clock limits handout_limits

local function first_of(set, least)
  return redis.call('ZRANGE', set, least, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or false
end

local present, waiting_with_key = text(now), redis.call('ZCARD', keyed)

local function count_waiting(from, to)
  return redis.call('ZCOUNT', due, from, to) + (waiting_with_key > 0 and redis.call('ZCOUNT', keyed, from, to) or 0)
end

local function first_waiting(least)
  local one, other = first_of(due, least), waiting_with_key > 0 and first_of(keyed, least)
  return one and other and (one + 0 < other + 0 and one or other) or one or other
end

local function due_within(minutes)
  return count_waiting('(' .. present, text(now + minutes * 60000000))
end

local over = redis.call('ZCOUNT', reserved, '-inf', present)
local ready = count_waiting('-inf', present)
local oldest = first_waiting('-inf')
if oldest and tonumber(oldest) > now then oldest = false end
local ran_out = first_of(reserved, '-inf')
if ran_out and tonumber(ran_out) <= now and (not oldest or tonumber(ran_out) < tonumber(oldest)) then oldest = ran_out end
local paused, _, opens_at, full = handout_limits()
local why, wait = false, now
local with_key = waiting_with_key > 0 and redis.call('ZCOUNT', keyed, '-inf', present) or 0
local held_back = 0
if with_key > 0 then
-- include key_state
  held_back = may_hold_back and with_key - jobs_that_may_go(with_key) or 0
end
local since = oldest
if held_back > 0 then  -- the oldest may be one of them: a key that may run has its turn, which lateness counts from, too
  since = false
  for _, at in ipairs({first_of(due, '-inf') or now + 1, first_of(turns, '-inf') or now + 1, ran_out or now + 1}) do
    if tonumber(at) <= math.min(now, tonumber(since or now)) then since = at end
  end
end
if ready + over > 0 then
  if opens_at > wait then why, wait = 'rate', opens_at end
  if full then
    local back = tonumber(first_of(reserved, '-inf'))
    if back > wait then why, wait = 'concurrency', back end
  end
  if not why and with_key > 0 and with_key == ready + over then  -- all of them have a key: whether one may go
    local turn = tonumber(redis.call('HGET', meta, 'keyed_next') or '') or tonumber(first_of(reserved, '-inf') or now)
    if turn > now then why, wait = 'key', turn end
  end
  if paused > wait then why, wait = 'pause', paused end
end
return {
  now,
  redis.call('ZCARD', due) + waiting_with_key - ready,
  ready + over,
  redis.call('ZCARD', reserved) - over,
  redis.call('ZCARD', dead),
  first_waiting('(' .. present),
  oldest,
  redis.call('ZCARD', watch),
  redis.call('HLEN', jobs),
  why,
  wait,
  redis.call('HGETALL', meta),
  redis.call('ZCOUNT', retrying, '(' .. present, '+inf'),
  redis.call('ZCOUNT', finished, '(' .. present, '+inf'),
  redis.call('ZCOUNT', dead, text(now - lately), '+inf'),
  redis.call('ZRANGE', dead, -1, -1, 'WITHSCORES')[2] or false,
  over,
  redis.call('HLEN', leaving),
  due_within(1),
  due_within(5),
  due_within(15),
  held_back,
  since,
}
