local lock, token, channel = unpack(KEYS)
local clock, sharded = unpack(ARGV)
--
-- Releases the lock of any holder. Answers how many locks that were: 1 or 0; -1 if the key is not a lock, and stays as it
-- is.
-- include unlock lock

if is_no_lock() then return -1 end
local there = redis.call('EXISTS', lock)
if there == 1 then unlock() end
return there
