-- Takes jobs of `set`, which is `due` or an index of priorities, as many as fit, and hands them out (lib/hand_out.lua). Sets `may_have_more`.
-- The size of the first few tells how many to read next.

local reads = math.min(max_jobs - handed, step)
local found, n
if set == due and reads <= FEW then
  found = redis.call('ZRANGE', due, 0, reads, 'WITHSCORES')  -- one more: the next deadline
  n = #found / 2
  while n > 0 and (n > reads or found[2 * n] + 0 > newest) do n = n - 1 end
  next_due = found[2 * n + 2] or math.huge
  may_have_more = n == reads
else
  if skipped > 0 and set ~= due then reads = STEP end  -- after one entry was skipped, there may be many
  found = redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
  next_due = nil
  may_have_more = #found == 2 * reads
  if set ~= due and #found > 0 then found = keep_agreeing(set, found, math.min(max_jobs - handed, step)) end
  n = #found / 2
end
-- include hand_out
