-- Who keeps something going: each has a promise to look, in `seats`.
--
--   me     the first: looks when something is due, or after TERM
--   ~me    its deputy: looks when that promise is broken by GRACE, and is the first then
--
-- All others look around every ROUND. A dead one is followed within TERM + GRACE, both dead within ROUND and that.

local FIRST_SEAT, DEPUTY_SEAT = 1, 2

-- Answers the caller's alarm and its seat; `due` is when something is to be done.
local function take_seat(seats, due, waiter, stays, term, grace, round)
  if waiter == '' then return due, 0 end
  local alarm = math.min(due, now + term)
  redis.call('ZREM', seats, waiter, '~' .. waiter)
  redis.call('ZREMRANGEBYSCORE', seats, '-inf', '(' .. text(now - grace))
  redis.call('ZREMRANGEBYSCORE', seats, '(' .. text(now + 2 * (term + grace)), '+inf')  -- nobody promises that: the clock was set back
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
