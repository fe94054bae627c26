local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, span = unpack(ARGV)
--
-- Pauses the topic for `span` µs; "" ends the pause. Answers the end of the pause, or 0.
-- include clock limits handout_limits watch

if span == '' then
  local paused = tonumber(redis.call('HGET', meta, 'paused') or 0)
  if paused > now then redis.call('HSET', meta, 'paused', text(now)) end  -- until now: no job is late by it
else
  redis.call('HSET', meta, 'paused', text(math.min(now + tonumber(span), LAST_MOMENT)), 'ruled', 1)
end
update_watch('', false, handout_limits())
return tonumber(redis.call('HGET', meta, 'paused') or 0)
