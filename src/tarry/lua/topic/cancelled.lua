local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, stale, cancelled = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, receipt = unpack(ARGV, i, i + 1)
--
-- Which of these receipts `cancel` has ended. Changes nothing. Answers 1 or 0 for each.
-- include clock

local FIRST, STRIDE = 2, 2
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, receipt = unpack(ARGV, i, i + 1)
  answers[#answers + 1] = redis.call('ZSCORE', cancelled, id .. ' ' .. text(tonumber(receipt))) and 1 or 0
end
return answers
