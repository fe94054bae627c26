local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock = unpack(ARGV)
-- each: element, due = unpack(ARGV, i, i + 1)
--
-- Puts elements that were taken out and not accepted back to where they were, the last one given first of all.
-- Answers 1 for each, or 0 if it exists already.
-- include clock redisson/element

local FIRST, STRIDE = 2, 2
check_types()
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local element, due = unpack(ARGV, i, i + 1)
  local added = redis.call('ZADD', timeouts, 'NX', due, element)
  if added == 1 then redis.call('LPUSH', order, element) end
  answers[#answers + 1] = added
end
local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')
if head[2] then redis.pcall('PUBLISH', channel, text(tonumber(head[2]))) end
return answers
