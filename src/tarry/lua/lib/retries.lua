-- Jobs that wait for their next attempt after a failure: delayed, and a run that has failed before.
--
--   retrying   sorted set   id → when it is due, as in `due`
--
-- Only entries of the future count, so `pop` need not remove any.

local MOST_TRIMMED, KEPT = 2, 86400  -- entries for each one noted; seconds after the last one
local noted = 0

-- After a job was put into `due` for a moment. `first`: when it failed first, or 0.
local function note_retry(id, at, first)
  if first == 0 then return end
  if at <= now then return redis.call('ZREM', retrying, id) end
  redis.call('ZADD', retrying, text(at), id)
  noted = noted + 1
end

-- After all were noted: removes entries of the past, and lets the key expire after the last one.
local function keep_retrying()
  if noted == 0 then return end
  local over = redis.call('ZRANGE', retrying, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, MOST_TRIMMED * noted)
  if #over > 0 then redis.call('ZREM', retrying, unpack(over)) end
  local last = tonumber(redis.call('ZRANGE', retrying, -1, -1, 'WITHSCORES')[2])
  redis.call('EXPIRE', retrying, text(math.ceil((last - now) / 1000000) + KEPT))
end

-- When a job failed for the first time, or 0.
local function first_failure(id) return (select(4, unpack_run(redis.call('HGET', runs, id) or ''))) end
