local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, ttr, counted = unpack(ARGV, i, i + 3)
--
-- Renews reservations: each ends `ttr` µs from now. Answers 1 for each, or why the receipt does not hold.
-- `counted`: 1, or 0: a refusal is not counted. A worker counts it when it knows that it has not settled the job itself.
-- include clock job run count receipt

local FIRST, STRIDE = 3, 4
local answers, refused, renewed = {}, 0, nil
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, ttr, counted = unpack(ARGV, i, i + 3)
  local run = redis.call('HGET', runs, id)
  local fault = receipt_fault(id, receipt, run, redis.call('ZSCORE', reserved, id))
  if fault == 'replay' then fault = 'released' end
  if fault then
    if counted == '1' then refused = refused + 1 end
  else
    redis.call('HDEL', meta, '')  -- the first write is a removal: works with a full memory too
    redis.call('ZADD', reserved, text(now + tonumber(ttr) + #answers), id)
    renewed = run
  end
  answers[#answers + 1] = fault or 1
end
local missed = renewed and redis.call('HGET', meta, 'missed')
if missed then
-- include missed
  note_alive(missed, (select(5, unpack_run(renewed))))
end
count('refused', refused)
return answers
