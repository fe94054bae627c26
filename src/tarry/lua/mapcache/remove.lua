local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, memo = unpack(KEYS)
local clock, sharded, when, proof, want, again = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- Takes living entries out: `any`, or only those `equal` to the proof. The leases' keys follow, one for each. What has
-- expired is left to the evictor, which tells of it. Answers for each: 1 or 0, then the value if it is wanted.
-- include clock entry event memo

local FIRST, LEASES = 7, #KEYS - (#ARGV - 6)
local answers = {}
for i = FIRST, #ARGV do
  local key, lease = ARGV[i], KEYS[LEASES + i - FIRST + 1]
  local _, was = living(key)
  local does = was and (when == 'any' or was == proof)
  if does then
    forget(key)
    tell(removed, key, was)
  end
  if (does or when == 'any') and redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  answers[#answers + 1] = does and 1 or 0
  answers[#answers + 1] = does and want == '1' and was or false
end
return remember(answers)
