local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints = unpack(KEYS)
local clock, sharded, cursor, limit = unpack(ARGV)
--
-- Makes an existing map obey its maximum size: a page of its entries is noted as never used, unless it is known better; after
-- the last page, entries over the size are removed. Answers the next cursor (0: there is no maximum), and how many are over.
-- include clock redisson/entry redisson/event redisson/expire_entries redisson/max_size

read_options()
if max_size <= 0 then return {'0', 0} end
if cursor ~= 'done' then
  local page = redis.call('HSCAN', entries, cursor, 'COUNT', limit)
  for i = 1, #page[2], 2 do redis.call('ZADD', accesses, 'NX', 0, page[2][i]) end
  if page[1] ~= '0' then return {page[1], 0} end
end
return {'done', keep_max_size('')}
