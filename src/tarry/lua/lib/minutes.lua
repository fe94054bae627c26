-- The totals of the topic at the first pop of each minute, for a day, and of each hour, for a week: its throughput, without a write
-- in `add`.
--
--   minutes   list    minute, added, finished, failed, died; of a topic from which jobs were handed out
--   meta      minute  the minute of the last entry
--
-- With the first entry of an hour, those older than a day are thinned to the first of each hour: they are the head of the list. A
-- fold reads at most MOST_FOLDED, more than an hour adds.

local HOUR, DAY_KEPT, WEEK_KEPT, MOST_FOLDED, EXPIRES = 60, 1440, 11520, 400, 777600  -- minutes; entries; seconds

local function fold_hours()
  local hours, old, last = {}, 0, -1
  for i, entry in ipairs(redis.call('LRANGE', minutes, 0, MOST_FOLDED - 1)) do
    local at = struct.unpack('<I', entry)
    if at > minute - DAY_KEPT then break end
    local hour = math.floor(at / HOUR)
    if hour ~= last and at > minute - WEEK_KEPT then table.insert(hours, 1, entry) end
    old, last = i, hour
  end
  if old > #hours then
    redis.call('LTRIM', minutes, old, -1)
    if #hours > 0 then redis.call('LPUSH', minutes, unpack(hours)) end
  end
end

redis.call('HSET', meta, 'minute', minute)
if not set[1] then redis.call('RPUSH', minutes, struct.pack('<Idddd', minute, 0, 0, 0, 0)) end
redis.call('RPUSH', minutes, struct.pack('<Idddd', minute, read_totals()))
if math.floor(minute / HOUR) > math.floor(tonumber(set[3] or 0) / HOUR) then fold_hours() end
redis.call('EXPIRE', minutes, EXPIRES)
