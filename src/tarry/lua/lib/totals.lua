-- How many jobs of the topic were added, finished and died, and how many attempts failed, since it began.

local TOTALS = {
  'n:finished', 'n:deleted', 'n:replaced', 'n:lost', 'n:swept',  -- the jobs that are gone: see stats.lua
  'n:failed', 'n:died',
}

local function read_totals()
  local n = redis.call('HMGET', meta, unpack(TOTALS))
  for i = 1, #TOTALS do n[i] = tonumber(n[i] or 0) end
  return redis.call('HLEN', jobs) + n[1] + n[2] + n[3] + n[4] + n[5], n[1], n[6], n[7]
end
