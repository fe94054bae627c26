local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, begins, limit = unpack(ARGV)
--
-- Counts the bytes of the bodies that wait again, on a topic that limits them: one bounded step, the first of which `begins`. Jobs come and go
-- meanwhile, and the limit holds (lib/bytes.lua).
-- Answers nothing if there is no such limit, or not yet; 0 if there are more; or what was known before, or nothing, and what there is.
-- include clock job flags order bytes

local most_bytes, since = string.match(redis.call('HGET', meta, 'bounds') or '', '^%d+ (%d+) (%d+)$')
if not most_bytes or most_bytes == '0' or now < tonumber(since) and tonumber(since) <= now + LEASE then return false end
redis.call('HDEL', meta, '')  -- a removal first (clock.lua)
if counts_bytes() and begins == '1' then weighed.sum = nil end
local known = counts_bytes() and weighed.total
local is_all = weigh_more(tonumber(limit))
keep_bytes()
if not is_all then return 0 end
return {known or false, weighed.total}
