-- A receipt: only the last one handed out for a job settles it, and only while its TTR lasts.

-- nil when the receipt holds; 'replay' when this very call was done before and its answer lost;
-- else why it does not hold, in words: 'again 3', 'timed out', 'released', 'dead', 'gone'.
local function fault_of(id, receipt, run, ends)
  if not run then return again == '1' and 'replay' or 'gone' end
  local attempt, _, last = struct.unpack(RUN, run)
  if last ~= tonumber(receipt) then return 'again ' .. attempt end
  if ends and tonumber(ends) > now then return nil end
  if again == '1' then return 'replay' end
  if ends then return 'timed out' end
  return redis.call('ZSCORE', dead, id) and 'dead' or 'released'
end
