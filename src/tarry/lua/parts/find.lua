local meta, jobs = unpack(KEYS)
local clock, wanted = unpack(ARGV)
--
-- How many partitions a topic has. It is written where a plain topic has its own: `meta` and `jobs` are texts then, and
-- whoever takes it for a plain topic is refused by the server before anything is written.
-- Answers the number; 1 for a plain topic; or 0: more are wanted, and it is a plain one that has been used.

if redis.call('TYPE', meta).ok == 'string' then return tonumber(redis.call('GET', meta)) end
if tonumber(wanted) < 2 then return 1 end
if redis.call('EXISTS', meta, jobs) > 0 then return 0 end
redis.call('MSET', meta, wanted, jobs, wanted)
return tonumber(wanted)
