local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, max_attempts, fault = unpack(ARGV, i, i + 3)
--
-- Sets reserved jobs aside as dead. The fault's first line is the reason. A job that was changed since (lib/update.lua) is ready instead,
-- and its attempts count from zero. Answers 1 for each, 2 for such a job, or why the receipt does not hold.
-- include clock job run count attempts bury max_attempts receipt flags priorities order bytes by_key turns

local FIRST, STRIDE = 3, 4
local TOO_LATE = 'too late'  -- the reason of a worker whose handler has a maximum; lib/unfit_jobs.lua has the same
local answers, buried, kept, late, refused = {}, 0, 0, 0, 0
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, max_attempts, reason = unpack(ARGV, i, i + 3)
  local run = redis.call('HGET', runs, id)
  local fault = receipt_fault(id, receipt, run, redis.call('ZSCORE', reserved, id))
  local attempt, limit, last, first, holder, _, is_changed, key = unpack_run(run or '')
  if fault == 'replay' and not is_changed and (redis.call('ZSCORE', due, id) or redis.call('ZSCORE', keyed, id)) then  -- the first call was lost, and the job put back
    note_out(id)
    if not leave(id) then redis.call('ZREM', due, id) end
    keep_bytes()
    redis.call('ZREM', retrying, id)
    fault = nil
  end
  if not fault then
    limit = limit_of(limit, tonumber(max_attempts))
    redis.call('ZREM', reserved, id)
    free_place(key, id)
    if first == 0 then first = now end
    local starts_exhausted = string.sub(reason, 1, #EXHAUSTED) == EXHAUSTED  -- a worker's last attempt: its error is in the second line
    note_attempt(id, attempt, last, holder, starts_exhausted and string.sub(reason, #EXHAUSTED + 1) or reason)
    if is_changed then
      if not enter(id, now) then
        redis.call('ZADD', due, text(now), id)
        index_again(id, text(now))
      end
      note_in(id, now)
      keep_bytes()
      redis.call('HSET', runs, id, pack_run(0, limit, last, first, holder, string.sub(reason, 1, LONGEST_FAULT), true))
      kept = kept + 1
    else
      bury_run(id, attempt, limit, last, first, holder, reason)
      buried = buried + 1
      if string.match(reason, '^[^\n]*') == TOO_LATE then late = late + 1 end
    end
  elseif fault ~= 'replay' then
    refused = refused + 1
  end
  answers[#answers + 1] = (not fault or fault == 'replay') and (is_changed and 2 or 1) or fault
end
count('died', buried)
count('released', kept)
count('too_late', late)
count('refused', refused)
keep_turns()
if kept > 0 or buried > 0 and (uses_keys() or redis.call('HEXISTS', meta, 'concurrency') == 1) then
-- include limits handout_limits watch capacity
  if note_capacity(buried + kept) or kept > 0 or uses_keys() then update_watch('', false, handout_limits()) end
end
return answers
