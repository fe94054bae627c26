local reserved, dead, jobs, runs, meta = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, name, result = unpack(ARGV, i, i + 3)
--
-- Keeps the results of steps with reserved jobs. A name that has a result keeps it: so a repeated call changes nothing. A job that was
-- changed since it was handed out (lib/update.lua) keeps none, for the next run has another body.
-- Answers for each "=" and the result that the name has now; how many bytes the steps of the job would have, if they are too many; or why
-- the receipt does not hold.
-- include clock job run receipt nonce flags heads steps

local FIRST, STRIDE = 3, 4
local answers, refused = {}, 0
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, name, result = unpack(ARGV, i, i + 3)
  local run, value = redis.call('HGET', runs, id), redis.call('HGET', jobs, id)
  local fault = receipt_fault(id, receipt, run, redis.call('ZSCORE', reserved, id))
  local flags, further, _, _, _, _, _, body_at = read_head(value or '')
  if fault == 'replay' then fault = 'released' end  -- the caller is not its holder any more
  if not fault and not (flags and is_known(further) and body_at <= #value) then fault = 'gone' end
  local answer = fault
  if fault then
    refused = refused + 1
  elseif select(7, unpack_run(run)) then
    answer = '=' .. result
  else
    local steps = steps_of(value)
    local kept = result_of(steps, name)
    if not kept then steps = with_step(steps, name, result) end
    if kept then
      answer = '=' .. kept
    elseif #steps > MOST_OF_STEPS then
      answer = #steps
    else
      answer = '=' .. result
      redis.call('HSET', jobs, id, with_field(value, HAS_STEPS, struct.pack('<I', #steps) .. steps))
    end
  end
  answers[#answers + 1] = answer
end
if refused > 0 then redis.call('HINCRBY', meta, 'n:refused', refused) end
return answers
