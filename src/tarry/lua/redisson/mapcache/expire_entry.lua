local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints, memo = unpack(KEYS)
local clock, sharded, ttl, idle, if_not_set, is_replay = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- Sets new deadlines of living entries: `ttl` µs and `idle` ms from now, 0 for none; or only of those that have none. Answers 1
-- or 0 for each; fewer answers than keys if values are large: then call again with the rest.
-- include clock redisson/entry redisson/event redisson/stored_reply redisson/evictor_hint

local FIRST, MOST_BYTES = 7, 4000000
local bytes = 0
ttl, idle = tonumber(ttl), tonumber(idle)
local ends = ttl > 0 and math.ceil((now + ttl) / 1000) or NEVER
local answers = {}
for i = FIRST, #ARGV do
  if bytes > MOST_BYTES then break end
  local key = ARGV[i]
  local was_idle, value = live_entry(key)
  local does = value and not (if_not_set == '1' and expires_at(key, was_idle) < NEVER)
  if does then
    redis.call('HSET', entries, key, struct.pack(PACKED, idle, #value, value))
    if ttl > 0 then
      redis.call('ZADD', timeouts, text(ends), key)
    else
      redis.call('ZREM', timeouts, key)
    end
    if idle <= 0 then redis.call('ZREM', idles, key) end
    touch(key, idle)
    hint_evictor(math.min(ends, idle > 0 and math.ceil(now_ms + idle) or NEVER))
  end
  bytes = bytes + (value and #value or 0)
  answers[#answers + 1] = does and 1 or 0
end
return if_not_set == '1' and remember(answers) or answers
