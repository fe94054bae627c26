-- Hands out jobs of a topic that has jobs with a key.

-- include streams
local streams, set, may_have_more = open_streams(), nil, true
while may_have_more and handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full do
  local reads = math.min(max_jobs - handed, step)
  local n, found, owners = streams.take(reads)
  local picked = n
  may_have_more = n == reads
-- include hand_out
  streams.keep(picked)
  step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
end
streams.close()
