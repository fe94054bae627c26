local holders, busy, observers = unpack(KEYS)
local clock, holder, is_busy, channels, topics = unpack(ARGV)
--
-- A worker process says that it is there, subscribed to its channel, and whether it holds jobs. Calls observers if any process does.
-- Answers 1; 2 if it shall look for others itself; 0 if nobody is subscribed to its channel here, and -1 if it may not ask for that:
-- then it is not known here.
-- include clock observers

local counts = subscribers_of({holder})
if not counts or counts[1] == 0 then
  forget(holder)
  redis.call('ZREM', observers, holder)
  return counts and 0 or -1
end
redis.call('HDEL', holders, '')  -- a removal first (clock.lua)
write_record(holder, server_id(), 0, 0, now, topics)
local begins = is_busy == '1' and redis.call('EXISTS', busy) == 0
if is_busy == '1' then redis.call('ZADD', busy, text(now), holder) else redis.call('ZREM', busy, holder) end
local first, second = groups_of(redis.call('ZRANGE', busy, 0, CANDIDATES))
local looks = fill_seats(first, second, holder, begins) or is_of_use(holder, first, second) and may_stand_by()
redis.call('PEXPIRE', holders, KEPT)
redis.call('PEXPIRE', busy, KEPT)
redis.call('PEXPIRE', observers, KEPT)
return looks and 2 or 1
