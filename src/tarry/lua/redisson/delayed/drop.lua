local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock = unpack(ARGV)
-- each: element = unpack(ARGV, i, i)
--
-- Deletes elements, as many as one script may: at least one. Answers for each, in order, 1, or 0 if it did not exist; fewer
-- answers than elements: then call again with the rest.
-- include clock redisson/element redisson/remove_element

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
