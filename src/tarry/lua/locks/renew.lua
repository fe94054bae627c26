local lock, token, channel = unpack(KEYS)
local clock, holder, lease = unpack(ARGV)
--
-- The holder lives: the lock ends `lease` ms from now at the earliest. Answers 1, or 0 when it is no longer his.

if redis.call('HEXISTS', lock, holder) == 0 then return 0 end
if redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
return 1
