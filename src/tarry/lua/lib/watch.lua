-- The watch: who has promised to look, and the token that says that nobody has.
--
--   watch   sorted set   consumer → the time by which it has promised to look: a seat
--   wake    list         at most one token: nobody has promised to look in time
--   relay   list         at most one token: somebody has, but there is no second
--
-- Every script that changes or asks ends with `settle`. A token is a hint: a lost one costs at most ROUND.

local GRACE, ROUND = 1000000, 10000000

-- The next moment at which something can be done, or nil. While paused: the end of the pause.
local function earliest()
  local paused = tonumber(redis.call('HGET', meta, 'paused') or 0)
  if paused > now then return paused end
  local head = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  local back = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
  if not head or not back then return tonumber(head or back) end
  return math.min(tonumber(head), tonumber(back))
end

local function leave_token(list)
  if redis.call('LLEN', list) == 0 then redis.call('RPUSH', list, '1') end
end

-- Answers the caller's alarm and its seat (1, 2 or 0: none).
local function settle(me, stays)
  if me ~= '' then redis.call('ZREM', watch, me) end
  local seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  if seats[2] and tonumber(seats[2]) < now - GRACE then
    redis.call('ZREMRANGEBYSCORE', watch, '-inf', '(' .. text(now - GRACE))
    seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  end
  local next = earliest()
  if not next or next > now + ROUND then
    redis.call('DEL', wake, relay)
    return now + ROUND, 0
  end
  local by = math.max(next, now)
  local one, two = tonumber(seats[2] or math.huge), tonumber(seats[4] or math.huge)
  local alarm, seat = now + ROUND, 0
  if stays and one > by then
    alarm, seat = by, 1
    one, two = by, one
  elseif stays and two > by + GRACE then
    alarm, seat = math.min(by + GRACE, now + ROUND), 2
    two = alarm
  end
  if seat > 0 then redis.call('ZADD', watch, text(alarm), me) end
  if one > by then
    leave_token(wake)
    redis.call('DEL', relay)
  elseif two > by + GRACE then
    redis.call('DEL', wake)
    leave_token(relay)
  else
    redis.call('DEL', wake, relay)
  end
  return alarm, seat
end
