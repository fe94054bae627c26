local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, span = unpack(ARGV)
--
-- Hands out nothing for `span` µs; "" ends the pause. Answers the end of the pause, or 0.
-- include clock watch

local LAST_MOMENT = 253402300799999999
if span == '' then
  redis.call('HDEL', meta, 'paused')
else
  redis.call('HSET', meta, 'paused', text(math.min(now + tonumber(span), LAST_MOMENT)))
end
settle('', false)
return tonumber(redis.call('HGET', meta, 'paused') or 0)
