local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, again = unpack(ARGV)
-- each: id, receipt, ttr = unpack(ARGV, i, i + 2)
--
-- More time: the reservation ends `ttr` µs from now. Answers 1 for each, or why the receipt does not hold.
-- include clock job receipt

local FIRST, STRIDE = 3, 3
local answers, stale = {}, 0
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, ttr = unpack(ARGV, i, i + 2)
  local ends = redis.call('ZSCORE', reserved, id)
  local fault = fault_of(id, receipt, redis.call('HGET', runs, id), ends)
  if fault == 'replay' then fault = not ends and 'released' or nil end
  if fault then
    stale = stale + 1
  else
    redis.call('ZADD', reserved, text(now + tonumber(ttr) + #answers), id)
  end
  answers[#answers + 1] = fault or 1
end
count('stale', stale)
return answers
