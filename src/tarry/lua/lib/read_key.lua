-- The jobs of one key, as `by_key` has them (lib/by_key.lua): first those that are reserved, then those that wait, in their order.

local RESERVED, RESERVED_BYTE, FIRST_LEVEL, LAST_LEVEL, FEW_PLACES, MOST_READ_OF_KEY = '!', 33, 48, 51, 8, 64

-- A few entries of a key that wait, from there on: an answer of the server, in which `k` is the one before the next.
local function read_more(key, reading, from, limit)
  local found = redis.call('ZRANGE', by_key, from, '(' .. key .. '\1', 'BYLEX', 'LIMIT', 0, limit)
  found.k, found.is_cut, found.places = 0, #found == limit, reading.places
  return found
end

-- Begins to read a key: `places` are left of its `concurrency` (0: it has none).
local function read_key(key, concurrency)
  local found = {places = math.huge}
  if concurrency == 0 then return read_more(key, found, '[' .. key .. '\0"', 2) end
  if concurrency > FEW_PLACES then
    found.places = concurrency - redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0' .. RESERVED, '(' .. key .. '\0"')
    return read_more(key, found, '[' .. key .. '\0"', 2)
  end
  found = read_more(key, found, '[' .. key .. '\0', concurrency + 2)
  while found[found.k + 1] and string.byte(found[found.k + 1], #key + 2) == RESERVED_BYTE do found.k = found.k + 1 end
  found.places = concurrency - found.k
  return found
end

-- The next job of the key that may be handed out now: its entry, its due time, and the answer to go on with. If none may, nothing, and
-- when the first one may. Of each level the first one is looked at.
local function next_of_key(key, found)
  local soonest
  while true do
    local entry = found[found.k + 1]
    if entry then
      local at = struct.unpack('>d', entry, #key + 3)
      if at <= now then
        found.k = found.k + 1
        return entry, at, found
      end
      soonest = math.min(soonest or at, at)
      local level = string.byte(entry, #key + 2)
      local is_held = level < FIRST_LEVEL and redis.call('HGET', meta, 'retry_holds_key')  -- a retry, as long as the topic says so
      if level >= LAST_LEVEL or is_held then return nil, soonest, found end
      found = read_more(key, found, '[' .. key .. '\0' .. string.char(level + 1), 2)
    elseif found.is_cut then
      found = read_more(key, found, '(' .. found[found.k], MOST_READ_OF_KEY)
    else
      return nil, soonest, found
    end
  end
end
