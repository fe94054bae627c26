local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, max_attempts, fault = unpack(ARGV, i, i + 3)
--
-- Sets reserved jobs aside as dead. The fault's first line is the reason. Answers 1 for each, or why the receipt does not hold.
-- include clock job run count attempts bury max_attempts receipt

local FIRST, STRIDE = 3, 4
local TOO_LATE = 'too late'  -- the reason of a worker whose handler has a maximum; lib/unfit_jobs.lua has the same
local answers, buried, late, refused = {}, 0, 0, 0
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, max_attempts, reason = unpack(ARGV, i, i + 3)
  local run = redis.call('HGET', runs, id)
  local fault = receipt_fault(id, receipt, run, redis.call('ZSCORE', reserved, id))
  if fault == 'replay' and redis.call('ZREM', due, id) == 1 then  -- the first call was lost, and the job put back
    redis.call('ZREM', retrying, id)
    fault = nil
  end
  if not fault then
    local attempt, limit, last, first, holder = unpack_run(run)
    limit = limit_of(limit, tonumber(max_attempts))
    redis.call('ZREM', reserved, id)
    if first == 0 then first = now end
    local starts_exhausted = string.sub(reason, 1, #EXHAUSTED) == EXHAUSTED  -- a worker's last attempt: its error is in the second line
    note_attempt(id, attempt, last, holder, starts_exhausted and string.sub(reason, #EXHAUSTED + 1) or reason)
    bury_run(id, attempt, limit, last, first, holder, reason)
    buried = buried + 1
    if string.match(reason, '^[^\n]*') == TOO_LATE then late = late + 1 end
  elseif fault ~= 'replay' then
    refused = refused + 1
  end
  answers[#answers + 1] = (not fault or fault == 'replay') and 1 or fault
end
count('died', buried)
count('too_late', late)
count('refused', refused)
if buried > 0 and redis.call('HEXISTS', meta, 'concurrency') == 1 then
-- include limits handout_limits watch capacity
  if note_capacity(buried) then update_watch('', false, handout_limits()) end
end
return answers
