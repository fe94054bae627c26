local workers, heard = unpack(KEYS)
local clock, worker = unpack(ARGV)
--
-- A worker stops, or is certainly dead: it is known no more. Answers whether it was.
-- include clock

redis.call('ZREM', heard, worker)
return redis.call('HDEL', workers, worker)
