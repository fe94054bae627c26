-- The departure of a topic that begins now: see departure.lua.
--
--   meta   departed   the last one

local function depart_as(word, above)
  local departure = next_departure(redis.call('HGET', meta, 'departed'), word, above)
  redis.call('HSET', meta, 'departed', departure)
  return departure
end
