-- Tells the evictor, once, that an entry expires before its next look.

local FAR = 6000  -- ms: the evictor looks within that time anyway

local function hint_evictor(ends)
  if ends > now_ms + FAR then return end
  local seat = redis.call('ZRANGE', evictors, 0, 0, 'WITHSCORES')
  if seat[2] and ends * 1000 < tonumber(seat[2]) then
    redis.call('ZADD', evictors, text(ends * 1000), seat[1])
    publish(hints, 'due' .. text(ends))
  end
end
