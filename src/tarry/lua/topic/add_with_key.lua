local due, reserved, jobs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, id, mark_and_due, value = unpack(ARGV)
--
-- Adds one job with a key and without a priority, due at any time. Only if its id is new, and if the topic has had a job with a key.
-- Answers when it is due, with a minus if it is ready, or 0: nothing was written, add.lua judges it. The arguments are an item of
-- add.lua.
-- In place of an empty clock it gets the lease: the second of the server's clock for which the caller knows from `topic/add` that the topic has
-- no limits for producers. In any other second, and without one, nothing is written. A test's clock has it behind a blank.
-- include lease job due_at

local set = redis.call('HMGET', meta, 'keys', 'key_limits', 'keyed_next', 'turn', 'key_pauses', 'retry_holds_key')
-- The key in the head (lib/flags.lua): before it there are a nonce, the further flags, TTR, attempts, and a maximum of lateness.
local flags = string.byte(value)
local from = 1 + (flags % 16 >= HAS_NONCE and NONCE_SIZE or 0)
local further = flags >= 128 and struct.unpack('<H', value .. '\0\0', from + 1) or 0
from = from + 3 + (flags % 64 >= 32 and 4 or 0) + (flags % 128 >= 64 and 4 or 0) + (further % 2) * 8
if not set[1] or at > LAST_MOMENT or further ~= 8 and further ~= 9 or #value < from then return 0 end
local key = string.sub(value, from + 1, from + string.byte(value, from))
if redis.call('HSETNX', jobs, id, struct.pack(MOMENT, now) .. value) == 0 then return 0 end
redis.call('ZADD', keyed, at, id)
redis.call('ZADD', by_key, 0, key .. '\0' .. '3' .. struct.pack('>d', at) .. id)  -- lib/by_key.lua

-- The turn of the key, as lib/turns.lua finds it. A key without a turn has no other job that waits, or it is full.
local concurrency, n, is_fair = string.match(set[2] or '0 0 0 0', '^(%d+) (%d+) %d+ (%d+)$')
local had, ring = tonumber(redis.call('ZSCORE', turns, key) or nil), tonumber(set[4] or 0)
local may_change = not had or at < had and had > (is_fair == '1' and math.max(now, ring) or 0)
if may_change and not had and concurrency ~= '0' then
  may_change = redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0!', '(' .. key .. '\0"') < tonumber(concurrency)
end
if may_change and had and set[6] then  -- not before a retry that holds the key
  may_change = redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0/', '(' .. key .. '\0' .. '0') == 0
end
if may_change then
  local turn, first = at, tonumber(set[3] or nil)
  if n ~= '0' or set[5] then
    local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
    turn = math.max(turn, n ~= '0' and tonumber(ends[1] or 0) or 0, tonumber(ends[2] or 0))
  end
  if turn <= now and is_fair == '1' then
    ring = math.max(now, ring + 1)
    turn = ring
  end
  redis.call('ZADD', turns, turn, key)
  local is_first = not first or turn < first
  redis.call('HSET', meta, 'turn', text(ring), unpack(is_first and {'keyed_next', text(turn)} or {}))
  if is_first and turn <= now + HORIZON then
-- include limits handout_limits watch
    update_watch('', false, handout_limits())
  end
end
return at > now and at or -at
