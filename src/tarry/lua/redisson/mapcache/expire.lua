local entries, timeouts, idles, accesses, options = unpack(KEYS)
local clock, after, if_not_set = unpack(ARGV)
--
-- Lets the whole map expire `after` this many ms, all its keys together, as Redisson does; without `after` it no longer expires.
-- Answers 1, or 0 if there is no map, or if it had an expiry and `if_not_set`, or none to remove.
-- include clock redisson/entry

local SETS = {timeouts, idles, accesses}
local left = redis.call('PTTL', entries)
if left == -2 or left == -1 and after == '' or left >= 0 and if_not_set == '1' then return 0 end
read_options()
for i, set in ipairs(SETS) do
  if after == '' then
    redis.call('ZREM', set, TAG)
    redis.call('PERSIST', set)
  elseif i < 3 or max_size > 0 then
    redis.call('ZADD', set, text(NEVER), TAG)
    redis.call('PEXPIRE', set, after)
  end
end
if after == '' then
  redis.call('PERSIST', options)
  return redis.call('PERSIST', entries)
end
if max_size > 0 then redis.call('PEXPIRE', options, after) end
return redis.call('PEXPIRE', entries, after)
