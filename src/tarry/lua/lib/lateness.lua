-- Lateness, but for what a pause or a limit has held back, in buckets of a quarter of a power of two; neighbours in a batch
-- share one.

local late, bucket, low, high = {}, nil, 1, 0

local function note_lateness(us)
  if us < low or us >= high then
    us = math.max(us, 0)  -- what held it back is to come, for the clock was set back
    local k = math.floor(math.log(us + 1) / math.log(2) * 4)
    bucket, low, high = 'late:' .. k, 2 ^ (k / 4) - 1, 2 ^ ((k + 1) / 4) - 1
  end
  late[bucket] = (late[bucket] or 0) + 1
end

local function write_lateness()
  for bucket, n in pairs(late) do redis.call('HINCRBY', meta, bucket, n) end
end
