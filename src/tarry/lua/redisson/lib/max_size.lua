-- Removes entries over the maximum size: expired ones first, then those least recently or least frequently used, never
-- `except`. Bounded: the rest goes with the next write, or by the evictor.

local MOST_REMOVED = 200

local function keep_max_size(except)
  read_options()
  if max_size <= 0 then return 0 end
  local over = redis.call('HLEN', entries) - max_size
  if over <= 0 then return 0 end
  local left = math.min(over, MOST_REMOVED)
  left = left - expire_from(timeouts, left)
  if left > 0 then left = left - expire_from(idles, left) end
  if left > 0 then
    for _, key in ipairs(redis.call('ZRANGE', accesses, 0, left + 1)) do
      if left > 0 and key ~= except and key ~= TAG then
        local packed = redis.call('HGET', entries, key)
        forget(key)
        if packed then
          local _, value = read_entry(packed)
          publish_event(removed, key, value)
          left = left - 1
        end
      end
    end
  end
  return redis.call('HLEN', entries) - max_size
end
