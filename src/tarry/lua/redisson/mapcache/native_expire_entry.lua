local entries, memo = unpack(KEYS)
local clock, ttl, if_not_set, is_replay = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- Sets a new expiry of fields, `ttl` ms from now, 0 for none; or only of those that have none. Answers 1 or 0 for each.
-- include clock redisson/stored_reply redisson/fields

local FIRST = 5
local answers = {}
for i = FIRST, #ARGV do
  local key = ARGV[i]
  local left = left_of(key)
  local does = left == -1 or left >= 0 and if_not_set == '0'
  if does and ttl == '0' then
    redis.call('HPERSIST', entries, 'FIELDS', 1, key)
  elseif does then
    redis.call('HPEXPIRE', entries, ttl, 'FIELDS', 1, key)
  end
  answers[#answers + 1] = does and 1 or 0
end
return if_not_set == '1' and remember(answers) or answers
