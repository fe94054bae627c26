local entries, hints, memo = unpack(KEYS)
local clock, sharded, ttl, keep, condition, expected, with_old, is_replay = unpack(ARGV)
-- each: key, value = unpack(ARGV, i, i + 1)
--
-- As put.lua, for a map whose fields expire by themselves; `ttl` in ms, 0 for none.
-- include clock redisson/event redisson/stored_reply redisson/fields

local FIRST, STRIDE, LEASES = 9, 2, #KEYS - (#ARGV - 8) / 2
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local key, value = unpack(ARGV, i, i + 1)
  local lease = KEYS[LEASES + (i - FIRST) / STRIDE + 1]
  local was = redis.call('HGET', entries, key)
  local does = condition == 'always' or condition == 'absent' and not was or condition == 'present' and was
    or condition == 'equal' and was == expected or condition == 'leased' and redis.call('GET', lease) == expected
  if does then
    local left = keep == '1' and was and left_of(key) or tonumber(ttl)
    redis.call('HSET', entries, key, value)
    if left > 0 then redis.call('HPEXPIRE', entries, text(left), 'FIELDS', 1, key) end
    if redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  end
  answers[#answers + 1] = does and (was and 1 or 2) or 0
  answers[#answers + 1] = (with_old == '1' or not does) and was or false
end
return condition == 'always' and answers or remember(answers)
