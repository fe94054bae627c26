-- Raises WRONGTYPE if the topic has been given partitions since the caller asked: its `meta` is a string then.
redis.call('HEXISTS', meta, 'last')
