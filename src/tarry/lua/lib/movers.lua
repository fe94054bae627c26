-- Seats of clients that move a queue's due elements, in `movers`: each will look by a certain time. There are two.
--
--   waiter     the mover: looks when the head is due, or after TERM
--   ~waiter    its deputy: looks when the mover is late by GRACE, and takes its place
--
-- All others look every REST. They are called, on a channel with the name of `movers`, by a mover without a deputy, and by a
-- client that gives up its seat. A dead mover is replaced within TERM + GRACE + LEAST, which is less than a second; both within
-- REST and that.

local TERM, GRACE, LEAST, REST, ROUND = 700000, 100000, 150000, 5000000, 1000000
local MOVER, DEPUTY = 1, 2

-- Answers the caller's alarm (when to look next) and its seat.
local function take_seat(waiter, stays)
  local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
  local due = math.max(head and head * 1000 or now + ROUND, now)
  if waiter == '' then return due, 0 end
  local alarm = math.min(due, now + TERM)
  local had = redis.call('ZREM', movers, waiter, '~' .. waiter)
  redis.call('ZREMRANGEBYSCORE', movers, '-inf', '(' .. text(now - GRACE))
  redis.call('ZREMRANGEBYSCORE', movers, '(' .. text(now + REST), '+inf')  -- no seat is that far ahead: the clock was set back
  local function call_others() redis.pcall('PUBLISH', movers, 'a seat is free') end
  if not stays then
    if had > 0 then call_others() end
    return alarm, 0
  end

  local promised, deputies = nil, 0
  local seats = redis.call('ZRANGE', movers, 0, -1, 'WITHSCORES')
  for i = 1, #seats, 2 do
    if string.sub(seats[i], 1, 1) == '~' then
      deputies = deputies + 1
    else
      promised = tonumber(seats[i + 1])
    end
  end
  if not promised then
    redis.call('ZADD', movers, text(alarm), waiter)
    if deputies == 0 then call_others() end
    return alarm, MOVER
  elseif deputies == 0 then
    alarm = math.max(promised + GRACE, now + LEAST) + 1000
    redis.call('ZADD', movers, text(alarm), '~' .. waiter)
    return alarm, DEPUTY
  end
  return now + REST, 0
end
