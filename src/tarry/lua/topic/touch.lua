local reserved, dead, jobs, runs, meta = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, ttr, counted = unpack(ARGV, i, i + 3)
--
-- Renews reservations: each ends `ttr` µs from now. Answers how many, if all receipts hold; else 1 for each, or why the receipt does not
-- hold.
-- `counted`: 1, or 0: a refusal is not counted. A worker counts it when it knows that it has not settled the job itself.
-- include clock job

local FIRST, STRIDE = 3, 4
-- include reservations
local answers, refused, renewed, scores = {}, 0, nil, {}
local fault_of  -- of lib/receipt.lua, once a receipt may not hold
for k, id in ipairs(ids) do
  local i, run, at = FIRST + STRIDE * (k - 1), known[k], ends[k]
  local receipt, ttr, counted = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local fault
  if not run or not at or at + 0 <= now or string.sub(run, RECEIPT_AT, RECEIPT_ENDS) ~= struct.pack('<d', tonumber(receipt) or -1) then
    if not fault_of then
-- include receipt
      fault_of = receipt_fault
    end
    fault = fault_of(id, receipt, run, at)
    if fault == 'replay' then fault = 'released' end
  end
  if fault then
    if counted == '1' then refused = refused + 1 end
  else
    scores[#scores + 1], scores[#scores + 2] = text(now + tonumber(ttr) + #answers), id
    renewed = run
  end
  answers[k] = fault or 1
end
if renewed then
  redis.call('HDEL', meta, '')  -- a removal first (clock.lua)
  redis.call('ZADD', reserved, unpack(scores))
  local missed = redis.call('HGET', meta, 'missed')
  if missed then
-- include run missed
    note_alive(missed, (select(5, unpack_run(renewed))))
  end
end
if #scores == 2 * n then return n end
if refused > 0 then redis.call('HINCRBY', meta, 'n:refused', refused) end
return answers
