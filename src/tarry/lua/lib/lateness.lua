-- Counts lateness, without the time of a pause or a limit, in buckets of a quarter of a power of two; neighbours in a batch
-- often share one.

local late, bucket, low, high, in_bucket = {}, nil, 1, 0, 0

-- From now on counts in the bucket of `us`; `late` has all that was counted before.
local function change_bucket(us)
  if bucket then late[bucket] = (late[bucket] or 0) + in_bucket end
  us = math.max(us, 0)  -- negative if the clock was set back
  local k = math.floor(math.log(us + 1) / math.log(2) * 4)
  bucket, low, high, in_bucket = 'late:' .. k, 2 ^ (k / 4) - 1, 2 ^ ((k + 1) / 4) - 1, 0
end

-- `fault`: with a note the job was put back before, and its due time says nothing of lateness (lib/put_backs.lua).
local function note_lateness(us, fault)
  if fault ~= '' and string.find(fault, NOTE, 1, true) then
    late[NOTED] = (late[NOTED] or 0) + 1
    return
  end
  if us < low or us >= high then change_bucket(us) end
  in_bucket = in_bucket + 1
end
