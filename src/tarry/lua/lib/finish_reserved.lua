-- Removes the jobs that are finished; all of them were reserved.
local finished_now = redis.call('ZREM', reserved, unpack(ids))
redis.call('HDEL', runs, unpack(ids))
redis.call('HDEL', jobs, unpack(ids))
redis.call('HINCRBY', meta, 'n:finished', finished_now)
