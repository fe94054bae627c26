local ready, order, timeouts, channel, poison, movers, format, target = unpack(KEYS)
local clock = unpack(ARGV)
--
-- Moves the last element in the order of offers to the head of another list, as a payload. Answers what was learnt, and the payload
-- if there is one.
-- include clock redisson/element

check_types()
redis.call('LLEN', target)
while true do
  local element = redis.call('RPOP', order)
  if not element then return {''} end
  local due = redis.call('ZSCORE', timeouts, element)
  redis.call('ZREM', timeouts, element)
  local payload, reason = read_element(element)
  if payload then
    redis.call('LPUSH', target, payload)
    return {store_seen_format(), payload}
  end
  add_poison(element, due, reason)
end
