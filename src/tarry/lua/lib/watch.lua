-- The watch: who has promised to look, and the tokens that say that nobody has, or only one.
--
--   watch   sorted set   consumer → the time by which it has promised to look: a seat
--   wake    list         at most one token: nobody has promised to look in time
--   relay   list         at most one token: fewer than two have promised
--
-- Every script that brings a deadline nearer, or asks, ends with `settle`. A token is a hint: a lost one costs at most
-- ROUND, one dead consumer at most GRACE (docs/decisions/0003-the-watch.md; tests/watch/model.py tries every order).

local GRACE, ROUND = 1000000, 10000000
local HORIZON = 10500000  -- what is due beyond is nobody's yet: the longest look-around, by a twentieth more than ROUND

-- The next moment at which something can be done, or nil. While paused: not before the end of the pause. While the rate lets
-- nothing go: not before it does. While the cap is reached: not before a reservation runs out; other places that become free
-- are told by a token.
local function earliest(paused, fires, opens_at, full)
  local head = not full and redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  local back = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
  local first = fires
  if head or back then
    local ready = math.max(math.min(tonumber(head or back), tonumber(back or head)), opens_at)
    first = fires and math.min(fires, ready) or ready
  end
  return first and math.max(first, paused)
end

local function set_token(list, wanted)
  if not wanted then
    redis.call('DEL', list)
  elseif redis.call('LLEN', list) == 0 then
    redis.call('RPUSH', list, '1')
  end
end

-- Answers the caller's alarm and its seat (1, 2 or 0: none). What holds the topic back is given as `gates` answers it.
local function settle(waiter, stays, ...)
  if waiter ~= '' then redis.call('ZREM', watch, waiter) end
  local next = earliest(...)
  if not next or next > now + HORIZON then
    redis.call('DEL', watch, wake, relay)
    return now + ROUND, 0
  end
  local seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  if seats[2] and (tonumber(seats[2]) < now - GRACE or tonumber(seats[#seats]) > now + HORIZON) then
    redis.call('ZREMRANGEBYSCORE', watch, '-inf', '(' .. text(now - GRACE))
    redis.call('ZREMRANGEBYSCORE', watch, '(' .. text(now + HORIZON), '+inf')  -- nobody promises that: the clock was set back
    seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  end
  local in_time, taken = math.max(next, now), #seats / 2
  local watched = taken > 0 and tonumber(seats[2]) <= in_time
  local alarm, seat = now + ROUND, 0
  if stays and not watched then
    alarm, seat, watched = math.min(in_time, now + GRACE), 1, true
  elseif stays and taken < 2 then
    alarm, seat = now + GRACE, 2
  end
  if seat > 0 then
    redis.call('ZADD', watch, alarm, waiter)
    taken = taken + 1
  end
  if watched or taken > 1 or redis.call('EXISTS', wake, relay) < 2 then  -- with both tokens there, nothing is to do
    set_token(wake, not watched)
    set_token(relay, taken < 2)
  end
  return alarm, seat
end
