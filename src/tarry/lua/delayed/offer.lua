local ready, order, timeouts, channel, poison, movers = unpack(KEYS)
local clock, format = unpack(ARGV)
-- each: delay, new, old, payload = unpack(ARGV, i, i + 3)
--
-- Puts elements in, as RDelayedQueue.offer does: due in `delay` µs, in whole ms, rounded up. `new` and `old` are the two
-- heads of the payload; the format is given, or that of the queue's last element. Tells the channel when the head of the
-- queue is one of them. An offer that is there already was sent again. Answers when each is due.
-- include clock element

local FIRST, STRIDE = 3, 4
see_types()
if format == '' then
  local last = redis.call('LINDEX', order, -1)
  local _, found = read_element(last or '')
  format = found
end

local answers, mine = {}, {}
for i = FIRST, #ARGV, STRIDE do
  local delay, new, old, payload = unpack(ARGV, i, i + 3)
  local element = (format == OLD and old or new) .. payload
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
