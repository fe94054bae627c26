local workers, heard, asked = unpack(KEYS)
local clock, worker, since, record = unpack(ARGV)
--
-- Stores a worker's report. `since` is the answer to its first report; empty in that one.
-- Removes some workers that no longer report. The keys expire when no worker reports.
-- Answers since when it is known, and the mode that it is asked to take, or nothing. A first report forgets what was asked
-- before: another run had the name.
-- include clock workers

local SWEEP = 100
if since == '' then
  redis.call('HDEL', asked, worker)
  local known = redis.call('HGET', workers, worker)  -- it exists if the answer to the first report was lost
  since = known and string.match(known, '^%d+') or text(now)
end
redis.call('HSET', workers, worker, since .. ' ' .. record)
redis.call('ZADD', heard, text(now), worker)

local gone = redis.call('ZRANGE', heard, '-inf', text(now - TERM), 'BYSCORE', 'LIMIT', 0, SWEEP)
if #gone > 0 then
  redis.call('HDEL', workers, unpack(gone))
  redis.call('ZREM', heard, unpack(gone))
  redis.call('HDEL', asked, unpack(gone))
end
redis.call('PEXPIRE', workers, 2 * TERM / 1000)
redis.call('PEXPIRE', heard, 2 * TERM / 1000)
redis.call('PEXPIRE', asked, 2 * TERM / 1000)
return {tonumber(since), redis.call('HGET', asked, worker)}
