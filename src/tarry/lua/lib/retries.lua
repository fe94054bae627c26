-- Jobs that wait for their next attempt after a failure: delayed, and a run that has failed before.
--
--   retrying   sorted set   id → when it is due, as in `due`
--
-- Only entries of the future count, so `pop` need not remove any.

local MOST_TRIMMED, KEPT = 2, 86400  -- entries for each one noted; seconds after the last one
local noted = {}  -- id → when it is due

-- A job is put into `due` for a moment. `first`: when it failed first, or 0.
local function note_retry(id, at, first)
  if first == 0 then return end
  noted[id] = at > now and at or nil
  if at <= now then redis.call('ZREM', retrying, id) end
end

-- After all were noted: writes them, removes entries of the past, and lets the key expire after the last one.
local function keep_retrying()
  local scores = {}
  for id, at in pairs(noted) do scores[#scores + 1], scores[#scores + 2] = text(at), id end
  if #scores == 0 then return end
  redis.call('ZADD', retrying, unpack(scores))
  if redis.call('ZRANGE', retrying, 0, 0, 'WITHSCORES')[2] + 0 <= now then
    local over = redis.call('ZRANGE', retrying, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, MOST_TRIMMED * #scores / 2)
    redis.call('ZREM', retrying, unpack(over))
  end
  local last = tonumber(redis.call('ZRANGE', retrying, -1, -1, 'WITHSCORES')[2])
  redis.call('EXPIRE', retrying, text(math.ceil((last - now) / 1000000) + KEPT))
end

-- When a job failed for the first time, or 0.
local function first_failure(id) return (select(4, unpack_run(redis.call('HGET', runs, id) or ''))) end
