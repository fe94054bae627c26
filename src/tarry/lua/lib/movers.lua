-- Who keeps a queue moving: each has a promise to look, in `movers`. A seat is such a promise; there are two.
--
--   me     the mover: looks when the head is due, or after TERM
--   ~me    its deputy: looks when the mover's promise is broken by GRACE, and is the mover then
--
-- All others rest, and look around every REST. They are called, on a channel with the name of `movers`, by the mover that has
-- no deputy, and by who gives up a seat. A dead mover is followed within TERM + GRACE + LEAST, which is less than a second;
-- both dead at once within REST and that.

local TERM, GRACE, LEAST, REST, ROUND = 700000, 100000, 150000, 5000000, 1000000
local MOVER, DEPUTY = 1, 2

-- Answers the caller's alarm and its seat.
local function promise(waiter, stays)
  local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
  local due = math.max(head and head * 1000 or now + ROUND, now)
  if waiter == '' then return due, 0 end
  local alarm = math.min(due, now + TERM)
  local had = redis.call('ZREM', movers, waiter, '~' .. waiter)
  redis.call('ZREMRANGEBYSCORE', movers, '-inf', '(' .. text(now - GRACE))
  redis.call('ZREMRANGEBYSCORE', movers, '(' .. text(now + REST), '+inf')  -- nobody promises that: the clock was set back
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
