local items, fence, polled, channel = unpack(KEYS)
local clock, unit, is_replay = unpack(ARGV)
-- each: member, delay = unpack(ARGV, i, i + 1)
--
-- Adds items, due in `delay` µs, in units of `unit` µs, rounded up; without a delay just before now. In microseconds the items
-- of one push get one each, so that they keep their order; in milliseconds equal items are one, and the last push decides (the
-- layout "java").
-- Publishes on the channel if the first item of all is one of them. Answers when each is due, in units.
-- include clock

local FIRST, STRIDE = 4, 2
unit = tonumber(unit)
local n = (#ARGV - FIRST + 1) / STRIDE

local function due_of(delay, index)
  if delay == '0' then return math.floor((now - (unit == 1 and n - index or 0)) / unit) end  -- a poll that follows finds it
  return math.ceil((now + delay + (unit == 1 and index or 0)) / unit)
end

local answers, mine = {}, {}
for i = FIRST, #ARGV, STRIDE do
  local member, delay = unpack(ARGV, i, i + 1)
  local due = due_of(delay, #answers)
  local before = is_replay == '1' and unit == 1 and redis.call('ZSCORE', items, member)
  if before then
    due = tonumber(before)
  else
    redis.call('ZADD', items, text(due), member)
  end
  mine[member] = true
  answers[#answers + 1] = due
end
if mine[redis.call('ZRANGE', items, 0, 0)[1]] then redis.pcall('PUBLISH', channel, '1') end
return answers
