-- A map cache's entry: `entries` holds key → idle time in ms as double │ length │ value; its deadlines are in `timeouts` and
-- `idles`, in ms, rounded up (tarry/verbs/redisson/entries.py reads the same). It is alive until the first of them.

local PACKED = '<dI8c0'
local NEVER = 92233720368547758
local TAG = 'redisson__expiretag'  -- a member that Redisson puts into the sorted sets of a map that expires as a whole
local now_ms = now / 1000

-- The idle time (0: none) and the value. A value that is not packed is returned as it is.
local function read_entry(packed)
  if #packed >= 16 then
    local idle, size = struct.unpack('<dI8', packed)
    if size == #packed - 16 then
      if not (idle > 0 and idle < math.huge) then idle = 0 end
      return idle, string.sub(packed, 17)
    end
  end
  return 0, packed
end

local function expires_at(key, idle)
  local ends = tonumber(redis.call('ZSCORE', timeouts, key) or NEVER)
  if idle > 0 then ends = math.min(ends, tonumber(redis.call('ZSCORE', idles, key) or NEVER)) end
  return ends
end

-- The idle time and the value of a living entry; expired ones are invisible.
local function live_entry(key)
  local packed = redis.call('HGET', entries, key)
  if not packed then return end
  local idle, value = read_entry(packed)
  if expires_at(key, idle) <= now_ms then return end
  return idle, value
end

local max_size, lfu, listened
local function read_options()
  if max_size then return end
  local found = redis.call('HMGET', options, 'max-size', 'mode', 'has-listeners')
  max_size, lfu, listened = tonumber(found[1] or 0) or 0, found[2] == 'LFU', found[3]
end

-- Notes an access: the idle time starts again, and LRU or LFU is updated. pcall: a read must not fail when memory is full.
local function touch(key, idle)
  if idle > 0 then redis.pcall('ZADD', idles, text(math.ceil(now_ms + idle)), key) end
  read_options()
  if max_size > 0 then
    if lfu then
      redis.pcall('ZINCRBY', accesses, 1, key)
    else
      redis.pcall('ZADD', accesses, string.format('%.3f', now_ms), key)
    end
  end
end

local function forget(key)
  redis.call('ZREM', timeouts, key)
  redis.call('ZREM', idles, key)
  redis.call('ZREM', accesses, key)
  redis.call('HDEL', entries, key)
end
