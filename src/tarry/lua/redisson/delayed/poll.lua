local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- Takes up to `limit` elements out in the order of offers, due or not.
-- Answers what was learnt, then for each: element, due ms. Unreadable ones are set aside.
-- include clock redisson/element

local MOST_BYTES = 4000000
check_types()
local answers, bytes = {''}, 0
while #answers <= 2 * limit and bytes < MOST_BYTES do
  local element = redis.call('LPOP', order)
  if not element then break end
  local due = redis.call('ZSCORE', timeouts, element) or text(math.ceil(now / 1000))
  redis.call('ZREM', timeouts, element)
  local payload, reason = read_element(element)
  if payload then
    answers[#answers + 1] = element
    answers[#answers + 1] = due
    bytes = bytes + #element
  else
    add_poison(element, due, reason)
  end
end
answers[1] = store_seen_format()
return answers
