local holders, busy, observers = unpack(KEYS)
local clock, holder, channels, only_absent = unpack(ARGV)
--
-- Nobody looks for this worker process any more: it ends, or its subscription has. With `only_absent` it is forgotten only if it is
-- still missed: its jobs were released. Answers whether it was known.
-- include clock observers

if only_absent == '1' and select(2, read_record(redis.call('HGET', holders, holder))) < MISSES then return 0 end
redis.call('ZREM', observers, holder)
return forget(holder)
