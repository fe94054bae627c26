-- A receipt: only the last one handed out for a job settles it, and only while its TTR lasts.
--
--   pop ── receipt 17 ──▶ consumer A ── TTR over ──▶ pop ── receipt 21 ──▶ consumer B
--                          └── finish(17): 'again 2'                       └── finish(21): done

-- Whether a receipt holds:
--   nil        it holds; for a repeated call also after the TTR, until the job is put back
--   'replay'   it was the last one: the repeated call was done before, or comes too late though nobody else has had the job since
--   else       why it does not hold: 'again 3', 'timed out', 'released', 'dead', 'never' (handed out), 'gone'; a repeated call is
--              told 'gone' for 'never': the job that it was for is not this one
-- If it was the last receipt, answers also when the job failed first, or 0.
local function receipt_fault(id, receipt, run, ends)
  local attempt, last, first, _ = 0, 0, 0, nil
  if run and #run >= RUN_SIZE then attempt, _, _, last, first = struct.unpack(RUN, run) end
  first = math.floor(math.abs(first))  -- its sign and a fraction say something else (lib/run.lua)
  local is_last = last == tonumber(receipt)
  if is_last and ends and (tonumber(ends) > now or is_replay == '1') then return nil, first end
  redis.call('HDEL', meta, '')  -- the first write is a removal: so the refusal can be counted with a full memory too
  if last == 0 then  -- it may still have a run: it was too late, or came from another topic
    return is_replay == '0' and redis.call('HEXISTS', jobs, id) == 1 and 'never' or 'gone'
  end
  if not is_last then return 'again ' .. attempt end
  if is_replay == '1' then return 'replay', first end
  if ends then return 'timed out' end
  return redis.call('ZSCORE', dead, id) and 'dead' or 'released'
end
