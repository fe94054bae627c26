local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock = unpack(ARGV)
-- each: field, value = unpack(ARGV, i, i + 1)
--
-- The topic's own defaults and limits; an empty value takes one back. Another rate begins with nothing saved up: across the
-- change, too, no more go than either allows. Answers all that are set.
-- include clock limits gates watch

local FIELDS = {'ttr', 'max_attempts', 'keep', 'rate', 'burst', 'concurrency', 'max_lateness'}
local rate = redis.call('HGET', meta, 'rate')
for i = 2, #ARGV, 2 do
  local field, value = unpack(ARGV, i, i + 1)
  if value == '' then redis.call('HDEL', meta, field) else redis.call('HSET', meta, field, value, 'ruled', 1) end
end
local set = redis.call('HMGET', meta, unpack(FIELDS))
if set[4] or set[6] or set[7] then
  redis.call('HSET', meta, 'limited', 1)
else
  redis.call('HDEL', meta, 'limited', 'spent', 'opened')
end
if set[4] and set[4] ~= rate then redis.call('HSET', meta, 'spent', text(now) .. ' ' .. text(read_limits().burst)) end
if #ARGV > 1 then settle('', false, read_gates()) end
return set
