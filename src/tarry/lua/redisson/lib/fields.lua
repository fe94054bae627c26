-- Expiry of single fields of a hash, in Valkey 9 and Redis 7.4. Refuses other servers before anything is written.

local probe = redis.pcall('HPTTL', entries, 'FIELDS', 1, '')
if type(probe) == 'table' and probe.err then
  return redis.error_reply('FIELDS ' .. probe.err)
end

local function left_of(key)  -- ms; -1: no end, -2: not there
  return redis.call('HPTTL', entries, 'FIELDS', 1, key)[1] or -2
end
