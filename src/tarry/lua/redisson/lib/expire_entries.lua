-- Removes up to `limit` entries whose deadline in `set` is over, and publishes an event of each. Answers their number.

local MOST_BYTES = 4000000

local function expire_from(set, limit)
  local evicted, bytes = 0, 0
  local last = text(math.floor(now_ms))
  for _, key in ipairs(redis.call('ZRANGE', set, '-inf', last, 'BYSCORE', 'LIMIT', 0, limit)) do
    if bytes > MOST_BYTES then break end
    local packed, idle, value = redis.call('HGET', entries, key), 0, ''
    if packed then idle, value = read_entry(packed) end
    if packed and set == idles and idle == 0 then
      redis.call('ZREM', idles, key)  -- it has no idle time: Redisson's putIfAbsent leaves this deadline on a living entry
    else
      forget(key)
      if packed then
        publish(expired, event(key, value))
        evicted, bytes = evicted + 1, bytes + #packed
      end
    end
  end
  return evicted
end
