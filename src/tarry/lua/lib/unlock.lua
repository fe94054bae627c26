-- The lock is free: Redisson's message says so to all who wait, Java's and ours. In a Cluster newer Redissons listen to
-- the shard's channel, older ones to the common one.
local function unlock()
  redis.call('DEL', lock)
  redis.pcall('PUBLISH', channel, '0')
  if sharded == '1' then redis.pcall('SPUBLISH', channel, '0') end
end
