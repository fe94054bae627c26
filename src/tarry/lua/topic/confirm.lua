local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, receipt = unpack(ARGV, i, i + 1)
--
-- A consumer confirms that it has received these jobs for their last attempt: from now on that attempt counts. Jobs whose
-- handing out was never confirmed are put back by lib/expired_reservations.lua. Answers 1 for each that the consumer still has,
-- or 0.
-- include clock job run

local FIRST, STRIDE = 2, 2
local answers = {}
redis.call('HDEL', meta, '')  -- a removal first (clock.lua)
for i = FIRST, #ARGV, STRIDE do
  local id, receipt = unpack(ARGV, i, i + 1)
  local run, ends = redis.call('HGET', runs, id), redis.call('ZSCORE', reserved, id)
  local attempt, limit, last, first, holder, fault, is_changed, key = unpack_run(run or '')
  local mine = last == tonumber(receipt) and ends and tonumber(ends) > now
  if mine and limit == UNCONFIRMED then
    redis.call('HSET', runs, id, pack_run(attempt, attempt, last, first, holder, fault, is_changed, key))
  end
  answers[#answers + 1] = mine and 1 or 0
end
return answers
