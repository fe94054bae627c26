local lock, token, channel = unpack(KEYS)
local clock = unpack(ARGV)
--
-- The state of the lock: {holder, depth, …}, ms until it ends (-2: it is free, -1: never), the last token; 0 if the key is not
-- a lock.
-- include lock

if is_no_lock() then return 0 end
return {redis.call('HGETALL', lock), redis.call('PTTL', lock), redis.call('GET', token)}
