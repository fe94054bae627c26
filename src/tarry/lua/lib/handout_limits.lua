-- The last arguments of `update_watch`: the end of the pause, the next schedule, when the rate allows a job, whether the
-- concurrency limit is reached.
local function handout_limits()
  if not redis.call('HGET', meta, 'ruled') then return 0, nil, 0, false end
  local set = redis.call('HMGET', meta, 'paused', 'fires', 'limited', 'spent', 'opened')
  local paused, next_schedule = tonumber(set[1] or 0), tonumber(set[2])
  if not set[3] then return paused, next_schedule, 0, false end
  return paused, next_schedule, read_limits(set[3], set[4], set[5]).next_and_full()
end
