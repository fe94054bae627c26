local entries, hints, memo = unpack(KEYS)
local clock, sharded, condition, expected, with_old, is_replay = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- As remove.lua, for a map whose fields expire by themselves.
-- include clock redisson/event redisson/stored_reply

local FIRST, LEASES = 7, #KEYS - (#ARGV - 6)
local answers = {}
for i = FIRST, #ARGV do
  local key, lease = ARGV[i], KEYS[LEASES + i - FIRST + 1]
  local was = redis.call('HGET', entries, key)
  local does = was and (condition == 'any' or was == expected)
  if does then redis.call('HDEL', entries, key) end
  if (does or condition == 'any') and redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  answers[#answers + 1] = does and 1 or 0
  answers[#answers + 1] = does and with_old == '1' and was or false
end
return remember(answers)
