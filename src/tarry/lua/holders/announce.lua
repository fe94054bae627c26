local holders, busy, observers = unpack(KEYS)
local clock, holder, is_busy, channels, topics = unpack(ARGV)
--
-- A worker process says that it is there, subscribed to its channel, and whether it holds jobs. Calls observers if any process does.
-- Answers 1; 2 if it shall look for others itself; 0 if nobody is subscribed to its channel here, and -1 if it may not ask for that.
-- A process may die at once, by its first job: the end of its subscription may then be seen before this call. So it is missed if it
-- was known here before. Otherwise it is not known after 0 or -1.
-- include clock observers

local counts = subscribers_of({holder})
local is_there = counts and counts[1] > 0
local is_missed = counts and not is_there and is_busy == '1' and read_record(redis.call('HGET', holders, holder)) == server_id()
if not is_there and not is_missed then
  forget(holder)
  redis.call('ZREM', observers, holder)
  return counts and 0 or -1
end
redis.call('HDEL', holders, '')  -- a removal first (clock.lua)
write_record(holder, server_id(), 0, 0, now, topics)
local begins = is_busy == '1' and redis.call('EXISTS', busy) == 0
if is_busy == '1' then redis.call('ZADD', busy, text(now), holder) else redis.call('ZREM', busy, holder) end
local first, second = groups_of(redis.call('ZRANGE', busy, 0, CANDIDATES))
local looks = fill_seats(first, second, is_there and holder, begins) or is_of_use(holder, first, second) and may_stand_by()
redis.call('PEXPIRE', holders, KEPT)
redis.call('PEXPIRE', busy, KEPT)
redis.call('PEXPIRE', observers, KEPT)
return is_missed and 0 or looks and 2 or 1
