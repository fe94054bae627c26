local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, memo, lease = unpack(KEYS)
local clock, sharded, key, delta, is_replay = unpack(ARGV)
--
-- Adds to a number that is stored as text; a missing or expired entry is created as the delta. Answers the sum. Integers stay
-- integers, of 64 bits.
-- include clock redisson/entry redisson/event redisson/stored_reply redisson/expire_entries redisson/max_size redisson/evictor_hint redisson/write_entry

local SCRATCH = 'temp_val__redisson'  -- the field that Redisson uses, too; only during this script
local WHOLE = '^-?%d+$'
local was_idle, was = live_entry(key)
local number = was or '0'
redis.call('HSET', entries, SCRATCH, number)
local whole = string.find(number, WHOLE) and string.find(delta, WHOLE)
local done = redis.pcall(whole and 'HINCRBY' or 'HINCRBYFLOAT', entries, SCRATCH, delta)
local sum = redis.call('HGET', entries, SCRATCH)
redis.call('HDEL', entries, SCRATCH)
if type(done) == 'table' and done.err then
  return redis.error_reply('NUMBER the entry is not a number, or the sum does not fit 64 bits')
end
write(key, sum, was_idle, was, lease, 0, 0, true)
return remember(sum)
