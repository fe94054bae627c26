-- Seats of clients that keep a background task running, in the sorted set `seats`: each will look by a certain time.
--
--   waiter     the first: looks when something is due, or after TERM
--   ~waiter    its deputy: looks when the first is late by GRACE, and takes its place
--
-- All others look every ROUND. A dead first is replaced within TERM + GRACE, both within ROUND and that.

local FIRST_SEAT, DEPUTY_SEAT = 1, 2

-- Answers the caller's alarm (when to look next) and its seat; `due` is when there is something to do.
local function take_seat(seats, due, waiter, stays, term, grace, round)
  if waiter == '' then return due, 0 end
  local alarm = math.min(due, now + term)
  redis.call('ZREM', seats, waiter, '~' .. waiter)
  redis.call('ZREMRANGEBYSCORE', seats, '-inf', '(' .. text(now - grace))
  redis.call('ZREMRANGEBYSCORE', seats, '(' .. text(now + 2 * (term + grace)), '+inf')  -- no seat is that far ahead: the clock was set back
  if not stays then return alarm, 0 end

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
    return alarm, FIRST_SEAT
  elseif deputies == 0 then
    alarm = math.max(promised + grace, now + term) + 1000
    redis.call('ZADD', seats, text(alarm), '~' .. waiter)
    return alarm, DEPUTY_SEAT
  end
  return now + round, 0
end
