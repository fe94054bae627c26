local ready, order, timeouts, channel, poison, movers, format, elements = unpack(KEYS)
local clock, from, limit = unpack(ARGV)
--
-- Elements by their due times, up to `limit`, from a position on: of the queue, or of those that are leaving it. Takes nothing
-- out. Answers what was learnt, then for each: element, due ms.
-- include clock redisson/element

local found = redis.call('ZRANGE', elements, from, from + limit - 1, 'WITHSCORES')
for i = #found - 1, 1, -2 do
  if read_element(found[i]) then break end
end
return {store_seen_format(), unpack(found)}
