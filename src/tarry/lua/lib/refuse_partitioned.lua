-- Refused by the server where the topic has been given partitions since its caller asked: its `meta` is a text then.
redis.call('HEXISTS', meta, 'last')
