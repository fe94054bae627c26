local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, from, limit = unpack(ARGV)
--
-- Elements in the order of offers, up to `limit`, from a position on, after what was learnt. Takes nothing out.
-- include clock redisson/element

local elements = redis.call('LRANGE', order, from, from + limit - 1)
for i = #elements, 1, -1 do
  if read_element(elements[i]) then break end
end
return {store_seen_format(), unpack(elements)}
