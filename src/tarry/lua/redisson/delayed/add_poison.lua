local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock = unpack(ARGV)
-- each: payload, reason = unpack(ARGV, i, i + 1)
--
-- Adds payloads that were taken and are unreadable to the queue's poison, with the reason. Answers 1 for each.
-- include clock

local FIRST, STRIDE = 2, 2
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local payload, reason = unpack(ARGV, i, i + 1)
  redis.call('HSET', poison, payload, text(math.floor(now / 1000)) .. ' ' .. reason)
  answers[#answers + 1] = 1
end
return answers
