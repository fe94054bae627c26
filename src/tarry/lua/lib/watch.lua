-- The watch: which consumers will look in time, and the tokens that call others when fewer than two will.
--
--   watch   sorted set   consumer → by when it will pop: a seat
--   wake    list         at most one token, which calls for a first seat: no consumer will pop in time
--   relay   list         at most one token, which calls for a second seat: fewer than two are taken
--
-- Every script that can bring a deadline nearer ends with `update_watch`. A token is only a hint: a lost one costs at most ROUND, a
-- dead consumer at most GRACE (docs/decisions/0003-the-watch.md; tests/watch/model.py tries every order).

local GRACE, ROUND = 1000000, 10000000

-- Answers the caller's alarm (when to pop next) and its seat (1, 2 or 0: none). The arguments from `paused` on are those of
-- `handout_limits`; `next_due` and `next_end` are the first moments of `due` and `reserved`, if the script knows them.
--
-- `next` is when a job can be handed out: while the topic is paused, not before the end of the pause; while the rate allows none, not
-- before it does; at the concurrency limit, not before a reservation runs out (other freed places send a token).
local function update_watch(
  waiter, keeps_waiting, paused, next_schedule, rate_allows_at, at_concurrency_limit, next_due, next_end
)
  if waiter ~= '' then redis.call('ZREM', watch, waiter) end
  local never = math.huge
  if at_concurrency_limit then next_due = never end
  next_due = tonumber(next_due or redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or never)
  next_end = tonumber(next_end or redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or never)
  local next = math.max(paused, math.min(next_schedule or never, math.max(math.min(next_due, next_end), rate_allows_at)))
  if next > now + HORIZON then
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
    local function set_token(list, wanted)
      if not wanted then
        redis.call('DEL', list)
      elseif redis.call('LLEN', list) == 0 then
        redis.call('RPUSH', list, '1')
      end
    end
    set_token(wake, not first_seat_in_time)
    set_token(relay, taken < 2)
  end
  return alarm, seat
end
