local lock, token, channel = unpack(KEYS)
local clock, holder, depth, sharded, replay = unpack(ARGV)
--
-- Gives the lock back, or one hold of it: `depth` is how many are left. Tells those who wait when it is free.
-- Answers 1, or 0 when it was no longer his. A repeated call that finds nothing has done it before.
-- include unlock

if redis.call('HEXISTS', lock, holder) == 0 then return replay == '1' and 1 or 0 end
if depth == '0' then
  unlock()
else
  redis.call('HSET', lock, holder, depth)
end
return 1
