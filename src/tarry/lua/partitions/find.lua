local meta, jobs, wake = unpack(KEYS)
local clock, wanted, stale = unpack(ARGV)
--
-- How many partitions a topic has. It is written where a plain topic has its own: `meta` and `jobs` are texts then, and
-- whoever takes it for a plain topic is refused by the server before anything is written. Those who wait for the plain topic
-- would not hear of jobs any more: a token calls one of them, and each that was called (`stale`) the next. A lost one costs
-- its taker a look-around; nobody may be there, so it goes by itself.
-- Behind the number stands how their keys are named: so that they spread over all slots; older ones are only numbered.
-- Answers the number, below 0 for older ones; 1 for a plain topic; or 0: more are wanted, and it is a plain one that has been used.

local ROUND, SPREAD = 15, ' spread'

local function call_next()
  redis.call('DEL', wake)
  redis.call('RPUSH', wake, '1')
  redis.call('EXPIRE', wake, ROUND)
end

if redis.call('TYPE', meta).ok == 'string' then
  local number, named = string.match(redis.call('GET', meta), '^(%d+)(.*)$')
  if not number then return 1 end  -- something else's
  if named ~= '' and named ~= SPREAD then return redis.error_reply('NEWER partitions of the topic') end
  if stale == '1' then call_next() end
  return named == SPREAD and tonumber(number) or -tonumber(number)
end
if tonumber(wanted) < 2 then return 1 end
if redis.call('EXISTS', meta, jobs) > 0 then return 0 end
redis.call('MSET', meta, wanted .. SPREAD, jobs, wanted .. SPREAD)
call_next()
return tonumber(wanted)
