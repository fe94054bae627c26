local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, latch = unpack(KEYS)
local clock, sharded, amount, held = unpack(ARGV)
--
-- Redisson's eviction task: the client that gets the latch for `held` seconds removes up to `amount` expired entries by each
-- deadline. Answers how many, or -1 without the latch; then the size.
-- include clock redisson/entry redisson/event redisson/expire_entries

if redis.call('SETNX', latch, '1') == 0 then return {-1, redis.call('HLEN', entries)} end
redis.call('EXPIRE', latch, held)
local evicted = expire_from(timeouts, amount)
evicted = evicted + expire_from(idles, amount)
return {evicted, redis.call('HLEN', entries)}
