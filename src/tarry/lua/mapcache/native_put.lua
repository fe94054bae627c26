local entries, hints, memo = unpack(KEYS)
local clock, sharded, ttl, keep, when, proof, want, replay = unpack(ARGV)
-- each: key, value = unpack(ARGV, i, i + 1)
--
-- As put.lua, for a map whose fields expire by themselves; `ttl` in ms, 0 for none.
-- include clock event stored_reply fields

local FIRST, STRIDE, LEASES = 9, 2, #KEYS - (#ARGV - 8) / 2
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local key, value = unpack(ARGV, i, i + 1)
  local lease = KEYS[LEASES + (i - FIRST) / STRIDE + 1]
  local was = redis.call('HGET', entries, key)
  local does = when == 'always' or when == 'absent' and not was or when == 'present' and was
    or when == 'equal' and was == proof or when == 'leased' and redis.call('GET', lease) == proof
  if does then
    local left = keep == '1' and was and left_of(key) or tonumber(ttl)
    redis.call('HSET', entries, key, value)
    if left > 0 then redis.call('HPEXPIRE', entries, text(left), 'FIELDS', 1, key) end
    if redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  end
  answers[#answers + 1] = does and (was and 1 or 2) or 0
  answers[#answers + 1] = (want == '1' or not does) and was or false
end
return when == 'always' and answers or remember(answers)
