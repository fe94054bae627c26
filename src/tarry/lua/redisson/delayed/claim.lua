local ready, order, timeouts, channel, poison, movers, format, leaving, departed = unpack(KEYS)
local clock, limit, nonce, overtaken, above = unpack(ARGV)
--
-- Takes up to `limit` elements out, those due first, and keeps them in `leaving` with their due times until they have arrived
-- at their destination. Elements left there come first. They are a departure, as those of a topic are, which keeps its name however
-- often they are claimed; `nonce` is for a new one. A departure that was `overtaken` at its destination, by number `above`, gets
-- another number.
-- Answers what was learnt, the departure and now, then for each: element, due ms.
-- include clock redisson/element redisson/remove_element departure

local WORK, MOST_BYTES, MONTH = 400000, 1000000, 2592000
local length = check_types()
local departure = redis.call('GET', departed)
local fresh = redis.call('ZCARD', leaving) == 0
if fresh then
  local elements = redis.call('ZRANGE', timeouts, 0, limit - 1, 'WITHSCORES')
  local work, bytes = 0, 0
  for i = 1, #elements, 2 do
    if work >= WORK or bytes >= MOST_BYTES then break end
    local element, due = elements[i], elements[i + 1]
    redis.call('ZREM', timeouts, element)
    work, bytes = work + remove_element(element, length), bytes + #element
    local payload, reason = read_element(element)
    if payload then
      redis.call('ZADD', leaving, due, element)
    else
      add_poison(element, due, reason)
    end
  end
end
local learnt = store_seen_format()
local claimed = redis.call('ZRANGE', leaving, 0, -1, 'WITHSCORES')
if #claimed > 0 and (fresh or not departure or departure == overtaken) then  -- or its name has expired
  departure = next_departure(departure, nonce, tonumber(above))
  redis.call('SET', departed, departure, 'EX', MONTH)
end
return {learnt, departure or '', text(now), unpack(claimed)}
