local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, from, limit = unpack(ARGV)
--
-- Elements in the order of offers, up to `limit` or some 4 MB, from a position on. Takes nothing out.
-- Answers what was learnt, the position of the next page (0 at the end), then the elements.
-- include clock redisson/element

local MOST_BYTES, STEP = 4000000, 16
local at, last, bytes, elements = tonumber(from), from + limit, 0, {}
while at and at < last and bytes < MOST_BYTES do
  local wanted = math.min(STEP, last - at)
  local some = redis.call('LRANGE', order, at, at + wanted - 1)
  for _, element in ipairs(some) do
    elements[#elements + 1] = element
    bytes = bytes + #element
  end
  at = #some == wanted and at + wanted
end
for i = #elements, 1, -1 do
  if read_element(elements[i]) then break end
end
return {store_seen_format(), at or 0, unpack(elements)}
