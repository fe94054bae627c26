local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock = unpack(ARGV)
-- each: element = unpack(ARGV, i, i)
--
-- Elements are gone, as far as the work of one script goes: at least one. Answers for each, in order, 1 or 0 for one that
-- was not there; fewer answers than elements mean: give the rest again.
-- include clock element remove_element

local FIRST, STRIDE, WORK = 2, 1, 400000
local length = check_types()
local answers, work = {}, 0
for i = FIRST, #ARGV, STRIDE do
  if work >= WORK then break end
  local there = redis.call('ZREM', timeouts, ARGV[i])
  work = work + remove_element(ARGV[i], length)
  answers[#answers + 1] = there
end
return answers
