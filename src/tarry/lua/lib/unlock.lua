-- Frees the lock, and publishes Redisson's message to all waiters, Java's and tarry's. On a Cluster newer Redissons subscribe
-- to the shard's channel, older ones to the common one.
local function unlock()
  redis.call('DEL', lock)
  redis.pcall('PUBLISH', channel, '0')
  if sharded == '1' then redis.pcall('SPUBLISH', channel, '0') end
end
