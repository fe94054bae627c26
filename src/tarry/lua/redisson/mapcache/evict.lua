local entries, timeouts, idles, accesses, options, created, updated, removed, expired, evictors, hints = unpack(KEYS)
local clock, sharded, most, waiter, keeps_running = unpack(ARGV)
--
-- Removes expired entries, as many as one script may. `waiter` is the evictor that calls, and keeps its seat if it
-- `keeps_running`.
-- Answers: now, µs until the next look, the seat (1 evictor, 2 deputy, 0 none), how many were evicted, whether there are more,
-- whether the maximum size needs a trim.
-- include clock redisson/entry redisson/event redisson/expire_entries redisson/seats

local ROUND = 5000000
local INTERVALS = {term = 5000000, grace = 1000000, least = 5000000, rest = ROUND, longest = 12000000}
local LEFT = 60000  -- ms: what dead ones leave behind is gone after that

local evicted = expire_from(timeouts, most)
evicted = evicted + expire_from(idles, most)

local function head(set)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return tonumber(first[2] or NEVER)
end
local first = math.min(head(timeouts), head(idles))
local due = first == NEVER and now + ROUND or math.max(first * 1000, now)
local alarm, seat = take_seat(evictors, due, waiter, keeps_running == '1', INTERVALS)
if seat > 0 then redis.call('PEXPIRE', evictors, LEFT) end

read_options()
local uneven = 0
if max_size > 0 then
  local size = redis.call('HLEN', entries)
  if size > max_size or size > redis.call('ZCARD', accesses) then uneven = 1 end
end
return {now, alarm - now, seat, evicted, first <= now_ms and 1 or 0, uneven}
