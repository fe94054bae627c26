local entries, timeouts, idles, accesses, options = unpack(KEYS)
local clock, how = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- The values of living entries. `get` and `has` (which answers 1) are accesses; `look` is none; `ttl` is none either, and
-- does not look at the idle time. Answers for each, in order: the value or nothing.
-- include clock entry

local FIRST = 3
local answers = {}
for i = FIRST, #ARGV do
  local key, idle, value = ARGV[i], nil, nil
  if how == 'ttl' then
    local packed = redis.call('HGET', entries, key)
    if packed and ends_at(key, 0) > today then idle, value = read_entry(packed) end
  else
    idle, value = living(key)
    if value and how ~= 'look' then touch(key, idle) end
  end
  answers[i - FIRST + 1] = value and (how == 'has' and 1 or value) or false
end
return answers
