-- The departure of a topic that begins now: see departure.lua.
--
--   meta   departed   the last one

local function new_departure(nonce, above)
  local departure = next_departure(redis.call('HGET', meta, 'departed'), nonce, above)
  redis.call('HSET', meta, 'departed', departure)
  return departure
end
