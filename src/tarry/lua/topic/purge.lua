local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, place, side, limit = unpack(ARGV)
--
-- Deletes up to `limit` jobs of one place, or the whole topic at once (place "all"). What the topic has learned stays:
-- its receipts go on rising. Answers how many went.
-- include clock job window

local gone
if place == 'all' then
  gone = redis.call('HLEN', jobs)
  redis.call('UNLINK', due, reserved, dead, jobs, runs)
else
  local low, high = window(side, '', '')
  local ids = redis.call('ZRANGE', SETS[place], low, high, 'BYSCORE', 'LIMIT', 0, limit)
  gone = #ids
  if gone > 0 then
    redis.call('ZREM', SETS[place], unpack(ids))
    redis.call('HDEL', runs, unpack(ids))
    redis.call('HDEL', jobs, unpack(ids))
  end
end
count('deleted', gone)
return gone
