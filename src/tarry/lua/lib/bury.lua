-- Sets a job aside as dead, until it is kicked, deleted or too old.
-- The fault's first line is the reason, the rest is the error.

local LONGEST_FAULT = 8192
local EXHAUSTED, TIMED_OUT = 'attempts exhausted\n', 'timed out'

local function bury_run(id, attempt, limit, receipt, first, holder, fault, is_changed)
  redis.call('ZADD', dead, text(now), id)
  redis.call('HSET', runs, id, pack_run(attempt, limit, receipt, first, holder, string.sub(fault, 1, LONGEST_FAULT), is_changed))
end
