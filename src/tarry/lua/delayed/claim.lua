local ready, order, timeouts, channel, poison, movers, format, leaving = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- Takes up to `limit` elements out, those due first, and keeps them in `leaving` with their due times until somebody says
-- that they have arrived where they go. What was left there is first. Answers all of it: element, due ms, …
-- include clock element unlist

local WORK, MOST_BYTES = 400000, 1000000
local length = see_types()
if redis.call('ZCARD', leaving) == 0 then
  local elements = redis.call('ZRANGE', timeouts, 0, limit - 1, 'WITHSCORES')
  local work, bytes = 0, 0
  for i = 1, #elements, 2 do
    if work >= WORK or bytes >= MOST_BYTES then break end
    local element, due = elements[i], elements[i + 1]
    redis.call('ZREM', timeouts, element)
    work, bytes = work + unlist(element, length), bytes + #element
    local payload, reason = read_element(element)
    if payload then
      redis.call('ZADD', leaving, due, element)
    else
      set_aside(element, due, reason)
    end
  end
end
learn()
return redis.call('ZRANGE', leaving, 0, -1, 'WITHSCORES')
