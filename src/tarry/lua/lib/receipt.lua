-- A receipt: only the last one handed out for a job settles it, and only while its TTR lasts.

-- nil when the receipt holds (to a repeated call it does until somebody has put the job back); 'replay' when the call was
-- done before and its answer lost, or is too late though nobody else has had the job since;
-- else why it does not hold, in words: 'again 3', 'timed out', 'released', 'dead', 'never' (handed out), 'gone'.
-- Where it was the last one: also when the job failed first, 0 if it never did.
local function fault_of(id, receipt, run, ends)
  local attempt, last, first, _ = 0, 0, 0, nil
  if run and #run >= RUN_SIZE then attempt, _, last, first = struct.unpack(RUN, run) end
  local mine = last == tonumber(receipt)
  if mine and ends and (tonumber(ends) > now or replay == '1') then return nil, first end
  redis.call('HDEL', meta, '')  -- the first write is a removal: with a full memory too, the refusal can be counted
  if not run then
    if replay == '1' then return 'replay' end
    return redis.call('HEXISTS', jobs, id) == 1 and 'never' or 'gone'
  end
  if not mine then return 'again ' .. attempt end
  if replay == '1' then return 'replay', first end
  if ends then return 'timed out' end
  return redis.call('ZSCORE', dead, id) and 'dead' or 'released'
end
