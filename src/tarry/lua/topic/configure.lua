local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock = unpack(ARGV)
-- each: field, value = unpack(ARGV, i, i + 1)
--
-- The topic's own defaults and limits; an empty value takes one back. Another rate begins with nothing saved up: across the
-- change, too, no more go than either allows. Answers all that are set.
-- include clock limits gates watch

local BURST = 100000  -- µs: without one of its own, a rate may be ahead by what comes in so long
local FIELDS = {'ttr', 'max_attempts', 'keep', 'rate', 'burst', 'concurrency', 'max_lateness'}
local before = redis.call('HGET', meta, 'rate')
for i = 2, #ARGV, 2 do
  local field, value = unpack(ARGV, i, i + 1)
  if value == '' then redis.call('HDEL', meta, field) else redis.call('HSET', meta, field, value, 'ruled', 1) end
end
local set = redis.call('HMGET', meta, unpack(FIELDS))
if #ARGV == 1 then return set end

local rate, burst, cap, latest = unpack(set, 4, 7)
if rate or cap or latest then
  local n, span = string.match(rate or '0 0', '^(%d+) (%d+)$')
  burst = burst or text(rate and math.max(1, math.floor(n * BURST / span)) or 0)
  local packed = table.concat({n, span, burst, cap or '0', latest or '0'}, ' ')
  redis.call('HSET', meta, 'limited', packed)
  if rate and rate ~= before then redis.call('HSET', meta, 'spent', text(now) .. ' ' .. burst) end
else
  redis.call('HDEL', meta, 'limited', 'spent', 'opened')
end
settle('', false, read_gates())
return set
