-- The watch: which consumers will look in time, and the tokens that call others when fewer than two will.
--
--   watch   sorted set   consumer → by when it will pop: a seat
--   wake    list         at most one token, which calls for a first seat: no consumer will pop in time
--   relay   list         at most one token, which calls for a second seat: fewer than two are taken
--
-- Every script that can bring a deadline nearer ends with `update_watch`. A token is only a hint: a lost one costs at most ROUND, a
-- dead consumer at most GRACE (docs/decisions/0003-the-watch.md; tests/watch/model.py tries every order).

local GRACE, ROUND = 1000000, 10000000

-- The next moment at which a job can be handed out, or nil. While the topic is paused, not before the end of the pause; while
-- the rate allows none, not before it does; at the concurrency limit, not before a reservation runs out (other freed places
-- send a token).
local function earliest(paused, next_schedule, rate_allows_at, at_concurrency_limit)
  local next_due = not at_concurrency_limit and redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  local next_expiry = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
  local first = next_schedule
  if next_due or next_expiry then
    local ready = math.max(math.min(tonumber(next_due or next_expiry), tonumber(next_expiry or next_due)), rate_allows_at)
    first = next_schedule and math.min(next_schedule, ready) or ready
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

-- Answers the caller's alarm (when to pop next) and its seat (1, 2 or 0: none). The further arguments are those of
-- `handout_limits`.
local function update_watch(waiter, keeps_waiting, ...)
  if waiter ~= '' then redis.call('ZREM', watch, waiter) end
  local next = earliest(...)
  if not next or next > now + HORIZON then
    redis.call('DEL', watch, wake, relay)
    return now + ROUND, 0
  end
  local seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  if seats[2] and (tonumber(seats[2]) < now - GRACE or tonumber(seats[#seats]) > now + HORIZON) then
    redis.call('ZREMRANGEBYSCORE', watch, '-inf', '(' .. text(now - GRACE))
    redis.call('ZREMRANGEBYSCORE', watch, '(' .. text(now + HORIZON), '+inf')  -- no seat is that far ahead: the clock was set back
    seats = redis.call('ZRANGE', watch, 0, 1, 'WITHSCORES')
  end
  local in_time, taken = math.max(next, now), #seats / 2
  local first_seat_in_time = taken > 0 and tonumber(seats[2]) <= in_time
  local alarm, seat = now + ROUND, 0
  if keeps_waiting and not first_seat_in_time then
    alarm, seat, first_seat_in_time = math.min(in_time, now + GRACE), 1, true
  elseif keeps_waiting and taken < 2 then
    alarm, seat = now + GRACE, 2
  end
  if seat > 0 then
    redis.call('ZADD', watch, alarm, waiter)
    taken = taken + 1
  end
  if first_seat_in_time or taken > 1 or redis.call('EXISTS', wake, relay) < 2 then  -- both tokens are there already
    set_token(wake, not first_seat_in_time)
    set_token(relay, taken < 2)
  end
  return alarm, seat
end
