-- Deletes a few dead jobs that are too old: those in `old`.

redis.call('ZREM', dead, unpack(old))
redis.call('HDEL', runs, unpack(old))
redis.call('HDEL', jobs, unpack(old))
redis.call('HDEL', attempts, unpack(old))
count('swept', #old)
