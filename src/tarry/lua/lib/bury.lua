-- Sets a job aside as dead, until it is kicked, deleted or too old.
-- The fault's first line is the reason, the rest is the error.

local LONGEST_FAULT, SWEEP = 8192, 16
local EXHAUSTED, TIMED_OUT = 'attempts exhausted\n', 'timed out'

local function bury_run(id, attempt, limit, receipt, first, holder, fault)
  redis.call('ZADD', dead, text(now), id)
  redis.call('HSET', runs, id, pack_run(attempt, limit, receipt, first, holder, string.sub(fault, 1, LONGEST_FAULT)))
end

-- Deletes a few dead jobs that are older than `keep` µs.
local function sweep_dead(keep)
  local old = keep > 0 and redis.call('ZRANGE', dead, '-inf', text(now - keep), 'BYSCORE', 'LIMIT', 0, SWEEP) or {}
  if #old == 0 then return end
  redis.call('ZREM', dead, unpack(old))
  redis.call('HDEL', runs, unpack(old))
  redis.call('HDEL', jobs, unpack(old))
  redis.call('HDEL', attempts, unpack(old))
  count('swept', #old)
end
