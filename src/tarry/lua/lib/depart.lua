-- Begins a departure of this topic: see departure.lua.
--
--   meta   departed   the name of the last one

local function new_departure(nonce, above)
  local departure = next_departure(redis.call('HGET', meta, 'departed'), nonce, above)
  redis.call('HSET', meta, 'departed', departure)
  return departure
end
