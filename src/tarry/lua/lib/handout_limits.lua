-- The last arguments of `update_watch`: the end of the pause, the next schedule, when the rate allows a job, whether the
-- concurrency limit is reached; and the first moment of `due` and of `turns` (lib/by_key.lua), where jobs have keys.
local function handout_limits()
  if not redis.call('HGET', meta, 'ruled') then return 0, nil, 0, false end
  local set = redis.call('HMGET', meta, 'paused', 'fires', 'limited', 'spent', 'opened', 'keyed_next')
  local paused, next_schedule, next_due = tonumber(set[1] or 0), tonumber(set[2]), nil
  local next_turn = tonumber(set[6] or nil)
  if next_turn then next_due = math.min(next_turn, tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or next_turn)) end
  if not set[3] then return paused, next_schedule, 0, false, next_due end
  local allows_at, is_full = read_limits(set[3], set[4], set[5]).next_and_full()
  return paused, next_schedule, allows_at, is_full, next_due
end
