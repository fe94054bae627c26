-- Seats of clients that keep a background task running, in the sorted set `seats`: each will look at a queue or a map by a
-- certain time. There are two:
--
--   waiter     the first: looks when something is due, or after `term`
--   ~waiter    its deputy: looks when the first is late by `grace`, and takes its place
--
-- All others look again after `rest`. A dead first is replaced within term + grace (its deputy looks after `least` at the
-- earliest), both within rest and that. A promise further ahead than `longest` is removed: the clock was set back.

local FIRST_SEAT, DEPUTY_SEAT = 1, 2

-- Answers the caller's alarm (when to look next) and its seat; `due_at` is when there is something to do. `call_others` is called
-- when a seat becomes free.
local function take_seat(seats, due_at, waiter, keeps_running, intervals, call_others)
  if waiter == '' then return due_at, 0 end
  local alarm = math.min(due_at, now + intervals.term)
  local had = redis.call('ZREM', seats, waiter, '~' .. waiter)
  redis.call('ZREMRANGEBYSCORE', seats, '-inf', '(' .. text(now - intervals.grace))
  redis.call('ZREMRANGEBYSCORE', seats, '(' .. text(now + intervals.longest), '+inf')
  if not keeps_running then
    if had > 0 and call_others then call_others() end
    return alarm, 0
  end

  local promised, deputies = nil, 0
  local taken = redis.call('ZRANGE', seats, 0, -1, 'WITHSCORES')
  for i = 1, #taken, 2 do
    if string.sub(taken[i], 1, 1) == '~' then
      deputies = deputies + 1
    else
      promised = tonumber(taken[i + 1])
    end
  end
  if not promised then
    redis.call('ZADD', seats, text(alarm), waiter)
    if deputies == 0 and call_others then call_others() end
    return alarm, FIRST_SEAT
  elseif deputies == 0 then
    alarm = math.max(promised + intervals.grace, now + intervals.least) + 1000
    redis.call('ZADD', seats, text(alarm), '~' .. waiter)
    return alarm, DEPUTY_SEAT
  end
  return now + intervals.rest, 0
end
