local entries, hints, memo = unpack(KEYS)
local clock, sharded, when, proof, want, replay = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- As remove.lua, for a map whose fields expire by themselves.
-- include clock event stored_reply

local FIRST, LEASES = 7, #KEYS - (#ARGV - 6)
local answers = {}
for i = FIRST, #ARGV do
  local key, lease = ARGV[i], KEYS[LEASES + i - FIRST + 1]
  local was = redis.call('HGET', entries, key)
  local does = was and (when == 'any' or was == proof)
  if does then redis.call('HDEL', entries, key) end
  if (does or when == 'any') and redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  answers[#answers + 1] = does and 1 or 0
  answers[#answers + 1] = does and want == '1' and was or false
end
return remember(answers)
