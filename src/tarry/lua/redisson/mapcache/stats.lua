local entries, timeouts, idles, accesses, options, evictors = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- The numbers of a map. Changes nothing. Answers: now, stored entries, expired ones among them (-1: more than `limit`, or
-- large, so they were not counted), the next deadline in ms (0: none), the maximum size, 1 for LFU, 1 if it has or had
-- listeners, how many evictors keep the map and are not late.
-- include clock redisson/entry

local MOST_BYTES, LATE = 4000000, 1000000

local function over(set)
  return redis.call('ZRANGE', set, '-inf', text(math.floor(now_ms)), 'BYSCORE', 'LIMIT', 0, limit + 1)
end

local function next_of(set)
  local found = redis.call('ZRANGE', set, '(' .. text(math.floor(now_ms)), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return found[1] and found[1] ~= TAG and tonumber(found[2]) or NEVER
end

local ended, tired, expired = over(timeouts), over(idles), 0
if #ended + #tired > tonumber(limit) then
  expired = -1
else
  for _, key in ipairs(ended) do expired = expired + redis.call('HEXISTS', entries, key) end
  local bytes = 0
  for _, key in ipairs(tired) do
    local packed = expires_at(key, 0) > now_ms and redis.call('HGET', entries, key)
    if packed and read_entry(packed) > 0 then expired = expired + 1 end
    bytes = bytes + (packed and #packed or 0)
    if bytes > MOST_BYTES then
      expired = -1
      break
    end
  end
end
read_options()
local next = math.min(next_of(timeouts), next_of(idles))
return {now, redis.call('HLEN', entries), expired, next < NEVER and next or 0, max_size, lfu and 1 or 0,
  listened and 1 or 0, redis.call('ZCOUNT', evictors, text(now - LATE), '+inf')}
