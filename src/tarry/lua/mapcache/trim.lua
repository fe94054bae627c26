local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints = unpack(KEYS)
local clock, sharded, cursor, limit = unpack(ARGV)
--
-- Makes a map keep to its maximum size: a page of its entries becomes known as used never, where nobody knows better; from
-- the last page on what is too much goes. Answers the next cursor, and how many are over.
-- include clock entry event expire_entries max_size

read_options()
if max_size <= 0 then return {'0', 0} end
if cursor ~= 'done' then
  local page = redis.call('HSCAN', entries, cursor, 'COUNT', limit)
  for i = 1, #page[2], 2 do redis.call('ZADD', accesses, 'NX', 0, page[2][i]) end
  if page[1] ~= '0' then return {page[1], 0} end
end
return {'done', math.max(keep_max_size(''), 0)}
