-- Counts lateness, without the time of a pause or a limit, in buckets of a quarter of a power of two; neighbours in a batch
-- often share one.

local late, bucket, low, high = {}, nil, 1, 0

local function note_lateness(us)
  if us < low or us >= high then
    us = math.max(us, 0)  -- negative if the clock was set back
    local k = math.floor(math.log(us + 1) / math.log(2) * 4)
    bucket, low, high = 'late:' .. k, 2 ^ (k / 4) - 1, 2 ^ ((k + 1) / 4) - 1
  end
  late[bucket] = (late[bucket] or 0) + 1
end
