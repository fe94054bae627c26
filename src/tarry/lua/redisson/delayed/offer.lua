local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, given = unpack(ARGV)
-- each: delay, new, old, payload = unpack(ARGV, i, i + 3)
--
-- Adds elements, as RDelayedQueue.offer does: due in `delay` µs, in whole ms, rounded up. `new` and `old` are the two heads of
-- the payload. The format is the `given` one, else that of the queue's last element, else the stored one; the offer is
-- refused if it is unknown, or if a given or stored format differs from the elements.
-- Publishes on the channel if the queue's new head is one of them. An offer that exists already is a repeated one. Answers when
-- each is due.
-- include clock redisson/element

local FIRST, STRIDE = 3, 4
check_types()
local stored = redis.call('GET', format)

local function format_at(place)
  local payload, found = read_element(redis.call('LINDEX', order, place) or '')
  return payload and found
end

-- The format, and how it is known; or nothing, and the error.
local function choose()
  local known, how = parse_format(stored)
  if known and known ~= NEW and known ~= OLD then return nil, redis.error_reply('NEWER format of the queue ' .. ready) end
  local function refuse(why, other)
    return nil, redis.error_reply('FORMAT ' .. string.format('%s %s %s', why, other, ready))
  end
  if how == SET then
    if given ~= '' and given ~= known then return refuse('remembered', known) end
    return known, SET
  end
  if how == SAID and given ~= '' and given ~= known then return refuse('remembered', known) end
  local found = format_at(-1) or format_at(0)
  local meant = given ~= '' and given or (how == SAID and known) or nil
  if meant and found and found ~= meant then return refuse('found', found) end
  if meant then return meant, SAID end
  if not found and not known then return refuse('unknown', '-') end
  return found or known, SEEN
end

-- A repeated offer is found as it was written.
local function written_as()
  local _, new, old, payload = unpack(ARGV, FIRST, FIRST + STRIDE - 1)
  if redis.call('ZSCORE', timeouts, new .. payload) then return NEW end
  if redis.call('ZSCORE', timeouts, old .. payload) then return OLD end
end

local chosen = written_as()
if not chosen then
  local how
  chosen, how = choose()
  if not chosen then return how end
  local known = chosen .. ' ' .. how
  if known ~= stored then redis.call('SET', format, known) end
end

local answers, mine = {}, {}
for i = FIRST, #ARGV, STRIDE do
  local delay, new, old, payload = unpack(ARGV, i, i + 3)
  local element = (chosen == OLD and old or new) .. payload
  local due = tonumber(redis.call('ZSCORE', timeouts, element))
  if not due then
    due = math.ceil((now + delay) / 1000)
    redis.call('ZADD', timeouts, text(due), element)
    redis.call('RPUSH', order, element)
    mine[element] = due
  end
  answers[#answers + 1] = due
end

local first = mine[redis.call('ZRANGE', timeouts, 0, 0)[1]]
if first then redis.pcall('PUBLISH', channel, text(first)) end
return answers
