local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, stale = unpack(KEYS)
local clock, replay = unpack(ARGV)
-- each: id, receipt = unpack(ARGV, i, i + 1)
--
-- Removes jobs whose work is done. Answers 1 for each, or why the receipt does not hold.
-- include clock job receipt stale

local FIRST, STRIDE = 3, 2
local ids, answers, gone, seen, late = {}, {}, {}, {}, 0
for i = FIRST, #ARGV, STRIDE do ids[#ids + 1] = ARGV[i] end
local overtaken = {}
local known = redis.call('HMGET', runs, unpack(ids))
local ends = redis.call('ZMSCORE', reserved, unpack(ids))
for i, id in ipairs(ids) do
  local receipt = ARGV[FIRST + STRIDE * (i - 1) + 1]
  local fault, first = receipt_fault(id, receipt, known[i], ends[i])
  if seen[id] and not fault then fault = 'gone' end
  seen[id] = seen[id] or not fault
  if fault == 'replay' and not known[i] and is_stale(id, tonumber(receipt)) then fault = 'gone' end
  if fault == 'replay' and known[i] then  -- the first call was lost, and the job put back: nobody else has it
    redis.call('ZREM', due, id)
    redis.call('ZREM', retrying, id)
    redis.call('ZREM', dead, id)
  end
  if not fault or fault == 'replay' and known[i] then
    gone[#gone + 1] = id
    if first > 0 then overtaken[#overtaken + 1] = {id, receipt - 1} end  -- it was handed out before
  end
  if fault and fault ~= 'replay' then late = late + 1 end
  answers[i] = (fault == 'replay' or not fault) and 1 or fault
end
if #gone > 0 then
  redis.call('ZREM', reserved, unpack(gone))
  for _, job in ipairs(overtaken) do
    note_stale(unpack(job))
    redis.call('HDEL', attempts, job[1])
  end
  keep_stale()
  redis.call('HDEL', runs, unpack(gone))
  redis.call('HDEL', jobs, unpack(gone))
end
count('finished', #gone)
count('stale', late)
if #gone > 0 and redis.call('HEXISTS', meta, 'concurrency') == 1 then
-- include limits handout_limits watch capacity
  if note_capacity(#gone) then update_watch('', false, handout_limits()) end
end
return answers
