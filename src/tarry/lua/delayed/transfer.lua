local ready, order, timeouts, channel, poison, movers = unpack(KEYS)
local clock, most, want, me, stays, ahead = unpack(ARGV)
-- each: place = unpack(ARGV, i, i)
--
-- Moves what is due, by due time, as far as the work of one script goes, and takes up to `want` payloads for the caller.
-- `me` keeps the queue moving when it `stays`.
-- `place` says where in `order` the next due element is believed to be; all those are taken out of it in one pass.
-- Answers: now, µs until the next look, the seat (1 mover, 2 deputy, 0 none), how many are left that are due, were moved, were set aside, were
-- not at their place; the next `ahead` of those left; payloads.
-- include clock element unlist movers

local FIRST, STRIDE = 7, 1
local WORK, MOST_BYTES = 400000, 4000000
local GONE = '\0tarry: moved'  -- never seen outside of this script
local length = see_types()
redis.call('ZCARD', movers)

local last = text(math.floor(now / 1000))
local due = redis.call('ZRANGE', timeouts, '-inf', last, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')

-- With places: one removal for all, one pass through the list, then the strays.
local function take_by_places()
  local elements, bytes = {}, 0
  while #elements < math.min(#ARGV - FIRST + 1, #due / 2) and bytes < MOST_BYTES do
    elements[#elements + 1] = due[2 * #elements + 1]
    bytes = bytes + #elements[#elements]
  end
  redis.call('ZREM', timeouts, unpack(elements))
  local strays, marked = {}, 0
  for i, element in ipairs(elements) do
    local place = ARGV[FIRST + i - 1]
    if place ~= '' and redis.call('LINDEX', order, place) == element then
      redis.call('LSET', order, place, GONE)
      marked = marked + 1
    else
      strays[#strays + 1] = element
    end
  end
  if marked > 0 then redis.call('LREM', order, marked, GONE) end
  for _, element in ipairs(strays) do unlist(element, length) end
  return elements, #strays
end

local function take_one_by_one()
  local elements, bytes, work = {}, 0, 0
  while #elements < #due / 2 and work < WORK and bytes < MOST_BYTES do
    local element = due[2 * #elements + 1]
    redis.call('ZREM', timeouts, element)
    work, bytes = work + unlist(element, length), bytes + #element
    elements[#elements + 1] = element
  end
  return elements, 0
end

local elements, strays = {}, 0
if #due > 0 and #ARGV >= FIRST then
  elements, strays = take_by_places()
else
  elements, strays = take_one_by_one()
end
local payloads, aside = {}, 0
for i, element in ipairs(elements) do
  local payload, reason = read_element(element)
  if payload then
    payloads[#payloads + 1] = payload
  else
    set_aside(element, due[2 * i], reason)
    aside = aside + 1
  end
end
if #payloads > 0 then redis.call('RPUSH', ready, unpack(payloads)) end

local left = redis.call('ZCOUNT', timeouts, '-inf', last)
local alarm, seat = promise(me, stays == '1')
local next = {}
if left > 0 and tonumber(ahead) > 0 then
  next = redis.call('ZRANGE', timeouts, '-inf', last, 'BYSCORE', 'LIMIT', 0, ahead)
end
local answers = {now, alarm - now, seat, left, #payloads, aside, strays, next}
for _ = 1, want do
  local payload = redis.call('LPOP', ready)
  if not payload then break end
  answers[#answers + 1] = payload
end
return answers
