local meta, jobs, wake = unpack(KEYS)
local clock, wanted, called_before = unpack(ARGV)
--
-- The number of partitions of a topic. It is stored in the keys of a plain topic: `meta` and `jobs` are strings then, so that
-- the server refuses a caller that takes it for a plain topic, before anything is written. Consumers that wait for the plain
-- topic would not get its jobs: a token calls one of them, and each that was called (`called_before`) calls the next. A lost token
-- costs one round; there may be no consumer, so it expires.
-- After the number a newer version may say what is otherwise.
-- Answers the number; 1 for a plain topic; or 0: more are wanted, and it is a plain topic that has been used.

local ROUND = 15

local function call_next()
  redis.call('DEL', wake)
  redis.call('RPUSH', wake, '1')
  redis.call('EXPIRE', wake, ROUND)
end

if redis.call('TYPE', meta).ok == 'string' then
  local number, more = string.match(redis.call('GET', meta), '^(%d+)(.*)$')
  if not number then return 1 end  -- another program's key
  if more ~= '' then return redis.error_reply('NEWER partitions of the topic') end
  if called_before == '1' then call_next() end
  return tonumber(number)
end
if tonumber(wanted) < 2 then return 1 end
if redis.call('EXISTS', meta, jobs) > 0 then return 0 end
redis.call('MSET', meta, wanted, jobs, wanted)
call_next()
return tonumber(wanted)
