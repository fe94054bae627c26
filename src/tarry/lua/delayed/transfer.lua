local ready, order, timeouts, channel, poison, movers = unpack(KEYS)
local clock, most, want, me, stays = unpack(ARGV)
--
-- Moves what is due, by due time, as far as the work of one script goes, and takes up to `want` payloads for the caller.
-- `me` keeps the queue moving when it `stays`: it is the mover unless somebody else has promised to look in time.
-- Answers: now, µs until the next look, 1 for the mover, 1 to go on at once, how many were moved and set aside, payloads.
-- include clock element unlist

local ROUND, GRACE = 700000, 250000
local WORK, MOST_BYTES = 400000, 4000000
local length = see_types()
if me ~= '' then redis.call('ZCARD', movers) end

local moved, aside, work, bytes = 0, 0, 0, 0
local last = text(math.floor(now / 1000))
local due = redis.call('ZRANGE', timeouts, '-inf', last, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
for i = 1, #due, 2 do
  local element = due[i]
  if work >= WORK or bytes >= MOST_BYTES then break end
  redis.call('ZREM', timeouts, element)
  work, bytes = work + unlist(element, length), bytes + #element
  local payload, reason = read_element(element)
  if payload then
    redis.call('RPUSH', ready, payload)
    moved = moved + 1
  else
    set_aside(element, due[i + 1], reason)
    aside = aside + 1
  end
end

local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
local next = head and head * 1000 or now + ROUND
local go_on = next <= now and 1 or 0
local alarm, mover = math.max(math.min(next, now + ROUND), now), 0
if me ~= '' then
  redis.call('ZREM', movers, me)
  redis.call('ZREMRANGEBYSCORE', movers, '-inf', '(' .. text(now - GRACE))
  if stays == '1' and redis.call('ZCARD', movers) == 0 then
    redis.call('ZADD', movers, text(alarm), me)
    mover = 1
  elseif stays == '1' then
    alarm = now + ROUND
  end
end

local answers = {now, alarm - now, mover, go_on, moved, aside}
for _ = 1, want do
  local payload = redis.call('LPOP', ready)
  if not payload then break end
  answers[#answers + 1] = payload
end
return answers
