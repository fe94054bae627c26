local lock, token, channel = unpack(KEYS)
local clock, sharded = unpack(ARGV)
--
-- Takes the lock from whoever has it. Answers how many locks that were: 1 or 0.
-- include free

local there = redis.call('EXISTS', lock)
if there == 1 then free() end
return there
