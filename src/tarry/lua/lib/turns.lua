-- When a key may run next: its turn. lib/by_key.lua has what is stored.

local key_limits, ring

local function read_key_limits(stored, turn, pauses, holds)
  local concurrency, n, span, fair = string.match(stored or '', '^(%d+) (%d+) (%d+) (%d+)$')
  concurrency, n, span = tonumber(concurrency or 0), tonumber(n or 0), tonumber(span or 0)
  key_limits = {concurrency = concurrency, n = n, interval = n > 0 and span / n or 0, is_fair = fair == '1', pauses = pauses, holds = holds}
  ring = tonumber(turn or 0)
end

local function know_key_limits()
  if not key_limits then read_key_limits(unpack(redis.call('HMGET', meta, 'key_limits', 'turn', 'key_pauses', 'retry_holds_key'))) end
end

-- The end of a key's pause, and of what its rate has spent.
local function pace_of_key(key)
  if key_limits.n == 0 and not key_limits.pauses then return 0 end
  local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
  return math.max(key_limits.n > 0 and tonumber(ends[1] or 0) or 0, tonumber(ends[2] or 0))
end

local function next_in_ring()
  ring = math.max(now, ring + 1)
  return ring
end

-- When a key may run next; `had`: its turn before, if it had one: then it has a place. `at`: the first due time of those that came, if none left.
local function turn_of_key(key, had, is_freed, at)
  if not at or not had and key_limits.concurrency > 0 then
    local found, _ = read_key(key, key_limits.concurrency), nil
    if found.places <= 0 then return end
    if not at then _, at = next_of_key(key, found) end
    if not at then return end
  end
  local turn = math.max(at, pace_of_key(key))
  if turn > now then return turn end
  if key_limits.is_fair then return had and had <= math.max(now, ring) and had or next_in_ring() end
  return is_freed and now or at
end

-- After all was noted: finds the turns of the keys that were touched. Answers whether one has changed.
local function keep_turns()
  if #touched == 0 then return false end
  know_key_limits()
  local before, given, gone = redis.call('ZMSCORE', turns, unpack(touched)), {}, {}
  for i, key in ipairs(touched) do
    local had, note = tonumber(before[i] or nil), noted[key]
    local may_change = not had or note[2] or note[1] < had and had > (key_limits.is_fair and math.max(now, ring) or 0)
    if may_change and had and not note[2] and key_limits.holds then  -- not before a retry that holds the key
      may_change = redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0/', '(' .. key .. '\0' .. '0') == 0
    end
    if may_change then
      local turn = turn_of_key(key, had, note[3], not note[2] and not note[3] and note[1] or nil)
      if turn then
        given[#given + 1], given[#given + 2] = text(turn), key
      elseif had then
        gone[#gone + 1] = key
      end
    end
  end
  touched, noted = {}, {}
  if #gone > 0 then redis.call('ZREM', turns, unpack(gone)) end
  if #given > 0 then redis.call('ZADD', turns, unpack(given)) end
  if #given == 0 and #gone == 0 then return false end
  redis.call('HSET', meta, 'keyed_next', redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2] or '', 'turn', text(ring))
  return true
end
