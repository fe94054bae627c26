local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, holder, ttr, cursor, limit = unpack(ARGV)
--
-- One bounded step through the reservations: those of one holder that would end sooner are renewed to `ttr` µs from now.
-- Reservations that are over stay so. Answers the next cursor and how many it renewed.
-- include clock refuse_partitioned job run

local step, renewed = redis.call('ZSCAN', reserved, cursor, 'COUNT', limit), {}
local ids = {}
for i = 1, #step[2], 2 do
  local over = tonumber(step[2][i + 1])
  if over > now and over < now + tonumber(ttr) then ids[#ids + 1] = step[2][i] end
end
if #ids > 0 then
  for i, run in ipairs(redis.call('HMGET', runs, unpack(ids))) do
    local _, _, _, _, whose = unpack_run(run or '')
    if whose == holder then renewed[#renewed + 1] = ids[i] end
  end
end
if #renewed > 0 then
  redis.call('HDEL', meta, '')  -- a removal first (clock.lua)
  for i, id in ipairs(renewed) do redis.call('ZADD', reserved, text(now + tonumber(ttr) + i - 1), id) end
end
return {step[1], #renewed}
