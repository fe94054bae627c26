-- Notes until when the rates of keys are `spent`, and forgets as many that are over.
local over = redis.call('ZRANGE', paces, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, #spent)
if #over > 0 then redis.call('ZREM', paces, unpack(over)) end
redis.call('ZADD', paces, unpack(spent))
