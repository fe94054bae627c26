-- The jobs that are settled: their ids and runs.

local ids, n = {}, 0
for i = FIRST, #ARGV, STRIDE do
  n = n + 1
  ids[n] = ARGV[i]
end
if n == 0 then return {} end
local known = redis.call('HMGET', runs, unpack(ids))
