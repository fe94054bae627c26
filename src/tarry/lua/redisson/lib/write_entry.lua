-- Writes an entry. `was` and `was_idle` are what `live_entry` answered. With `keep`, a living entry keeps its deadlines; else
-- they are `ttl` µs and `idle` ms from now, 0 for none. Ends a lease on the key, and keeps the maximum size.

local function write(key, value, was_idle, was, lease, ttl, idle, keep)
  local ends, keeps = NEVER, keep and was
  if keeps then idle = was_idle end
  redis.call('HSET', entries, key, struct.pack(PACKED, idle, #value, value))  -- first: a full memory refuses it
  if not keeps then
    if ttl > 0 then
      ends = math.ceil((now + ttl) / 1000)
      redis.call('ZADD', timeouts, text(ends), key)
    else
      redis.call('ZREM', timeouts, key)
    end
  end
  if idle <= 0 and was_idle ~= 0 then redis.call('ZREM', idles, key) end  -- if it had none, there is nothing to remove
  touch(key, idle)
  if was then
    publish_event(updated, key, value, was)
  else
    publish_event(created, key, value)
  end
  if redis.call('DEL', lease) == 1 then publish(hints, 'key' .. key) end
  keep_max_size(key)
  hint_evictor(math.min(ends, idle > 0 and math.ceil(now_ms + idle) or NEVER))
end
