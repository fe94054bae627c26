local due, reserved, dead, jobs, runs, meta, watch, wake, relay, attempts, priority1, priority2, priority3, minutes = unpack(KEYS)
local clock = unpack(ARGV)
--
-- The totals of the topic, and what they were at the first pop of each minute of the last day, and of each hour of the week before.
-- Changes nothing.
-- Answers now, added, finished, failed, died, then the entries of `minutes`.
-- include clock refuse_partitioned totals

local added, finished, failed, died = read_totals()
return {now, added, finished, failed, died, unpack(redis.call('LRANGE', minutes, 0, -1))}
