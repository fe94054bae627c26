-- The totals of the topic at the first pop of each minute, for a day: its throughput, without a write in `add`.
--
--   minutes   list    minute, added, finished, failed, died; of a topic from which jobs were handed out
--   meta      minute  the minute of the last entry

local MOST_MINUTES, TWO_DAYS = 1441, 172800

redis.call('HSET', meta, 'minute', minute)
if not set[1] then redis.call('RPUSH', minutes, struct.pack('<Idddd', minute, 0, 0, 0, 0)) end
local kept = redis.call('RPUSH', minutes, struct.pack('<Idddd', minute, read_totals()))
if kept > MOST_MINUTES then redis.call('LPOP', minutes) end
redis.call('EXPIRE', minutes, TWO_DAYS)
