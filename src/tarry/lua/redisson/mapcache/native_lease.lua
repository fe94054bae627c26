local entries, lease = unpack(KEYS)
local clock, token, lasts, key = unpack(ARGV)
--
-- As lease.lua, for a map whose fields expire by themselves.
-- include clock

local value = redis.call('HGET', entries, key)
if value then return {0, value} end
local holder = redis.call('GET', lease)
if holder == token then return {1} end
if not holder then
  redis.call('SET', lease, token, 'PX', lasts)
  return {1}
end
return {2, redis.call('PTTL', lease)}
