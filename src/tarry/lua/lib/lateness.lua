-- The bucket of a lateness, a quarter of a power of two, and its bounds; neighbours in a batch often share one. The time of a pause or
-- a limit is no lateness.
late_by = math.max(late_by, 0)  -- negative if the clock was set back
local quarters = math.floor(math.log(late_by + 1) / math.log(2) * 4)
bucket, low, high = 'late:' .. quarters, 2 ^ (quarters / 4) - 1, 2 ^ ((quarters + 1) / 4) - 1
