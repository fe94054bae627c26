local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, memo = unpack(KEYS)
local clock, sharded, condition, expected, with_old, is_replay = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- Removes living entries: `any`, or only those `equal` to the expected value. The leases' keys follow, one for each. Expired
-- entries are left to the evictor, which publishes their events. Answers for each: 1 or 0, then the value if `with_old`; fewer
-- answers than keys if values are large: then call again with the rest.
-- include clock redisson/entry redisson/event redisson/stored_reply

local FIRST, LEASES = 7, #KEYS - (#ARGV - 6)
local MOST_BYTES = 4000000
local answers, bytes = {}, 0
for i = FIRST, #ARGV do
  if bytes > MOST_BYTES then break end
  local key, lease = ARGV[i], KEYS[LEASES + i - FIRST + 1]
  local _, was = live_entry(key)
  local does = was and (condition == 'any' or was == expected)
  if does then
    forget(key)
    publish_event(removed, key, was)
  end
  if (does or condition == 'any') and redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  bytes = bytes + (was and #was or 0)
  answers[#answers + 1] = does and 1 or 0
  answers[#answers + 1] = does and with_old == '1' and was or false
end
return remember(answers)
