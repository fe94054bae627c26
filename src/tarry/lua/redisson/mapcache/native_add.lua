local entries, hints, memo, lease = unpack(KEYS)
local clock, sharded, key, delta, is_replay = unpack(ARGV)
--
-- As add.lua, for a map whose fields expire by themselves; a field keeps its expiry.
-- include clock redisson/event redisson/stored_reply

local WHOLE = '^-?%d+$'
local whole = string.find(redis.call('HGET', entries, key) or '0', WHOLE) and string.find(delta, WHOLE)
local done = redis.pcall(whole and 'HINCRBY' or 'HINCRBYFLOAT', entries, key, delta)
if type(done) == 'table' and done.err then
  if string.sub(done.err, 1, 4) ~= 'ERR ' then return done end  -- no fault of the number: the memory is full, say
  return redis.error_reply('NUMBER the entry is not a number, or the sum does not fit 64 bits')
end
if redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
return remember(redis.call('HGET', entries, key))
