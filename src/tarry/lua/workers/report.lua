local workers, heard = unpack(KEYS)
local clock, worker, since, record = unpack(ARGV)
--
-- A worker says of itself that it lives. `since` is what its first report was answered; empty in that one.
-- Some of those that are heard no more go. The keys end by themselves when nobody reports at all.
-- Answers since when it is known.
-- include clock workers

local SWEEP = 100
if since == '' then
  local known = redis.call('HGET', workers, worker)  -- there when the answer to the first report was lost
  since = known and string.match(known, '^%d+') or text(now)
end
redis.call('HSET', workers, worker, since .. ' ' .. record)
redis.call('ZADD', heard, text(now), worker)

local gone = redis.call('ZRANGE', heard, '-inf', text(now - TERM), 'BYSCORE', 'LIMIT', 0, SWEEP)
if #gone > 0 then
  redis.call('HDEL', workers, unpack(gone))
  redis.call('ZREM', heard, unpack(gone))
end
redis.call('PEXPIRE', workers, 2 * TERM / 1000)
redis.call('PEXPIRE', heard, 2 * TERM / 1000)
return tonumber(since)
