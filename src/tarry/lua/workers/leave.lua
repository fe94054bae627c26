local workers, heard, asked = unpack(KEYS)
local clock, worker = unpack(ARGV)
--
-- Removes a worker that stops, or that is certainly dead. Answers whether it was known.
-- include clock

redis.call('ZREM', heard, worker)
redis.call('HDEL', asked, worker)
return redis.call('HDEL', workers, worker)
