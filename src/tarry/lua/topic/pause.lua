local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, span, keeps_longer, key = unpack(ARGV)
--
-- Pauses the topic for `span` µs; "" ends the pause. `keeps_longer`: a pause that ends later stays. `key`: only
-- the jobs of this key. Answers the end of the pause, or 0.
-- include clock limits handout_limits watch

if key ~= '' then
-- include job flags used by_key turns pause_key
  return pause_key()
end

if span == '' then
  local paused = tonumber(redis.call('HGET', meta, 'paused') or 0)
  if paused > now then redis.call('HSET', meta, 'paused', text(now)) end  -- until now: no job is late by it
else
  local ends = math.min(now + tonumber(span), LAST_MOMENT)
  if keeps_longer == '1' then ends = math.max(ends, tonumber(redis.call('HGET', meta, 'paused') or 0)) end
  redis.call('HSET', meta, 'paused', text(ends), 'ruled', 1)
end
update_watch('', false, handout_limits())
return tonumber(redis.call('HGET', meta, 'paused') or 0)
