local lock, token, channel = unpack(KEYS)
local clock, holder, depth, sharded, is_replay = unpack(ARGV)
--
-- Releases the lock, or one hold of it: `depth` is how many are left. Publishes to the waiters when it is free.
-- Answers 1, or 0 if the caller did not hold it any more. A repeated call that finds no lock has done it before.
-- include unlock

if redis.call('HEXISTS', lock, holder) == 0 then return is_replay == '1' and 1 or 0 end
if depth == '0' then
  unlock()
else
  redis.call('HSET', lock, holder, depth)
end
return 1
