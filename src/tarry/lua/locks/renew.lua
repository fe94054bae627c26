local lock, token, channel = unpack(KEYS)
local clock, holder, lease = unpack(ARGV)
--
-- Renews the lock: it ends `lease` ms from now at the earliest. Answers 1, or 0 if the caller does not hold it any more.

if redis.call('HEXISTS', lock, holder) == 0 then return 0 end
if redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
return 1
