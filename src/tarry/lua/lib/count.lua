-- Counters of the topic, in `meta`.
local function count(what, n)
  if n > 0 then redis.call('HINCRBY', meta, 'n:' .. what, n) end
end
