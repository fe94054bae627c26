local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock = unpack(ARGV)
-- each: field, value = unpack(ARGV, i, i + 1)
--
-- The topic's own defaults (ttr, max_attempts, keep); an empty value takes one back. Answers all that are set.
-- include clock

for i = 2, #ARGV, 2 do
  local field, value = unpack(ARGV, i, i + 1)
  if value == '' then redis.call('HDEL', meta, field) else redis.call('HSET', meta, field, value) end
end
return redis.call('HMGET', meta, 'ttr', 'max_attempts', 'keep')
