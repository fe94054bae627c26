local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, lease = unpack(KEYS)
local clock, sharded, token, lasts, key = unpack(ARGV)
--
-- The value of a key, or the right to load it for `lasts` ms, which one caller has at a time. Answers: 0 and the value; 1: the
-- caller may load; 2 and the ms until another's lease ends. If the other is Java's, its write is made to publish an event.
-- include clock redisson/entry

local OURS = 'tarry:'
local idle, value = live_entry(key)
if value then
  touch(key, idle)
  return {0, value}
end
local holder = redis.call('GET', lease)
if holder == token then return {1} end
if not holder then
  redis.call('SET', lease, token, 'PX', lasts)
  return {1}
end
if string.sub(holder, 1, #OURS) ~= OURS then redis.call('HSETNX', options, 'has-listeners', '1') end
return {2, redis.call('PTTL', lease)}
