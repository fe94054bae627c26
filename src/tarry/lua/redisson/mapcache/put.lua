local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, memo = unpack(KEYS)
local clock, sharded, ttl, idle, keep, condition, expected, with_old, is_replay = unpack(ARGV)
-- each: key, value = unpack(ARGV, i, i + 1)
--
-- Writes entries: `always`, or only if the key is `absent`, `present`, `equal` to the expected value, or `leased` by the
-- expected token. After the map's keys follow those of the leases, one for each entry. Answers for each: 0 (not written),
-- 1 (updated) or 2 (created), then the old value, if `with_old`, or if it was the reason.
-- include clock redisson/entry redisson/event redisson/stored_reply redisson/expire_entries redisson/max_size redisson/evictor_hint redisson/write_entry

local FIRST, STRIDE, LEASES = 10, 2, #KEYS - (#ARGV - 9) / 2
ttl, idle = tonumber(ttl), tonumber(idle)
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local key, value = unpack(ARGV, i, i + 1)
  local lease = KEYS[LEASES + (i - FIRST) / STRIDE + 1]
  local was_idle, was = live_entry(key)
  local does = condition == 'always' or condition == 'absent' and not was or condition == 'present' and was
    or condition == 'equal' and was == expected or condition == 'leased' and redis.call('GET', lease) == expected
  if does then
    write(key, value, was_idle, was, lease, ttl, idle, keep == '1')
  elseif was then
    touch(key, was_idle)
  end
  answers[#answers + 1] = does and (was and 1 or 2) or 0
  answers[#answers + 1] = (with_old == '1' or not does) and was or false
end
return condition == 'always' and answers or remember(answers)
