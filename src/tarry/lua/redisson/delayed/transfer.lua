local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, most, limit, waiter, keeps_running, ahead, final, first, last = unpack(ARGV)
-- each: place = unpack(ARGV, i, i)
--
-- Moves due elements, by due time, as many as one script may, and takes up to `limit` payloads for the caller. `waiter` is the
-- mover that calls, and keeps its seat if it `keeps_running`.
-- `place` is the position in `order` of the next due element; all those are taken out in one pass. The positions are trusted
-- while the list begins with `first` and has `last` at position `final`: offers are appended after it, and anything else moves
-- one of them. An offer that is overdue already moves the last due element.
-- Answers: what was learnt, now, µs until the next look, the seat (1 mover, 2 deputy, 0 none), how many due ones are left, were moved, were set
-- aside; whether the positions were trusted; the next `ahead` of those left; with them final, first and last; payloads.
-- include clock redisson/element redisson/remove_element redisson/seats

local FIRST, STRIDE = 10, 1
local ROUND = 1000000
local INTERVALS = {term = 700000, grace = 100000, least = 150000, rest = 5000000, longest = 5000000}
local WORK, MOST_BYTES = 400000, 4000000
local MARK = '\0tarry: moved'  -- never seen outside of this script
local length = check_types()
redis.call('ZCARD', movers)

local now_ms = text(math.floor(now / 1000))
local due = redis.call('ZRANGE', timeouts, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, most)

local function at(place) return redis.call('LINDEX', order, place) end

local function places_hold()
  local given = math.min(#ARGV - FIRST + 1, #due)
  if given < 1 or at(0) ~= first or at(final) ~= last then return false end
  return at(ARGV[FIRST]) == due[1] and at(ARGV[FIRST + given - 1]) == due[given]  -- nobody else is due among them
end

-- Notes the payload that goes to `ready` for one element, or that it is unreadable. Nothing is written yet: the first write is a
-- removal, so that a full memory refuses none.
local payloads, unreadable, bytes = {}, {}, 0
local function take(element)
  local payload, reason = read_element(element)
  if payload then
    payloads[#payloads + 1] = payload
  else
    unreadable[#unreadable + 1] = {element, redis.call('ZSCORE', timeouts, element), reason}
  end
  bytes = bytes + #element
end

-- Removes all from the timeouts at once, in one pass through the list.
local function take_by_places()
  local most = math.min(#ARGV - FIRST + 1, #due)
  for i = 1, most do
    if bytes >= MOST_BYTES then most = i - 1 break end
    take(due[i])
  end
  redis.call('ZREM', timeouts, unpack(due, 1, most))
  for i = 1, most do redis.call('LSET', order, ARGV[FIRST + i - 1], MARK) end
  redis.call('LREM', order, most, MARK)
  return most
end

local function take_one_by_one()
  local done, work = 0, 0
  while done < #due and work < WORK and bytes < MOST_BYTES do
    done = done + 1
    take(due[done])
    redis.call('ZREM', timeouts, due[done])
    work = work + remove_element(due[done], length)
  end
  return done
end

local positions_valid = places_hold()
local taken = positions_valid and take_by_places() or take_one_by_one()
for _, found in ipairs(unreadable) do add_poison(unpack(found)) end
if #payloads > 0 then redis.call('RPUSH', ready, unpack(payloads)) end
local learnt = store_seen_format()

local left = redis.call('ZCOUNT', timeouts, '-inf', now_ms)
local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
local next_due = math.max(head and head * 1000 or now + ROUND, now)
local alarm, seat = take_seat(movers, next_due, waiter, keeps_running == '1', INTERVALS, function()
  redis.pcall('PUBLISH', movers, 'a seat is free')
end)
local answers = {learnt, now, alarm - now, seat, left, #payloads, #unreadable, positions_valid and 1 or 0, {}, {}}
if left > 0 and tonumber(ahead) > 0 then
  local remains = positions_valid and final - taken or redis.call('LLEN', order) - 1
  answers[9] = redis.call('ZRANGE', timeouts, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, ahead)
  if remains >= 0 then answers[10] = {text(remains), at(0), at(text(remains))} end
end
for _ = 1, limit do
  local payload = redis.call('LPOP', ready)
  if not payload then break end
  answers[#answers + 1] = payload
end
return answers
