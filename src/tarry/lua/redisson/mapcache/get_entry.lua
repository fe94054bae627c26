local entries, timeouts, idles, accesses, options = unpack(KEYS)
local clock, how = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- The values of living entries. `get`, `has` (which answers 1) and `all` are accesses; `ttl` is none, and ignores the idle
-- time. Answers for each, in order: the value or nothing; for `all` fewer answers than keys if values are large: then call
-- again with the rest.
-- include clock redisson/entry

local FIRST, MOST_BYTES = 3, 4000000
local answers, bytes = {}, 0
for i = FIRST, #ARGV do
  if bytes > MOST_BYTES and how == 'all' then break end
  local key, idle, value = ARGV[i], nil, nil
  if how == 'ttl' then
    local packed = redis.call('HGET', entries, key)
    if packed and expires_at(key, 0) > now_ms then idle, value = read_entry(packed) end
  else
    idle, value = live_entry(key)
    if value then touch(key, idle) end
  end
  bytes = bytes + (value and #value or 0)
  answers[i - FIRST + 1] = value and (how == 'has' and 1 or value) or false
end
return answers
