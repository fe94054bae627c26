-- The usual: these jobs were handed out once and are reserved; nothing is kept, and nobody waits for a place.
-- Each reserved and each dead job has a run. If no other job has one, and no reservation is over, a run tells whether its job is reserved.
local MANY = 16
local is_usual = is_replay == '0' and not (set[1] or set[2] or set[3])
if not is_usual or n < MANY or redis.call('HLEN', runs)
  ~= redis.call('ZCOUNT', reserved, '(' .. text(now), '+inf') + redis.call('ZCARD', dead) then
  ends = redis.call('ZMSCORE', reserved, unpack(ids))
end
if is_usual then
  local i, receipt, usual = FIRST + 1, nil, nil
  for k = 1, n do
    local run, at = known[k], ends and ends[k]
    if run ~= usual or ARGV[i] ~= receipt then  -- most have the run of the one before
      receipt, usual = ARGV[i], run
      is_usual = run and string.sub(run, RECEIPT_AT, FIRST_ENDS) == struct.pack('<dd', receipt, 0)
        and (ends or #run == RUN_SIZE + (string.byte(run, RUN_SIZE) or 0))  -- a dead job's has a fault, or a first failure
    end
    if not is_usual or ends and (not at or at + 0 <= now) or ARGV[i + 1] ~= '' then
      is_usual = false
      break
    end
    i = i + STRIDE
  end
  if not is_usual and not ends then ends = redis.call('ZMSCORE', reserved, unpack(ids)) end
end
if is_usual then
-- include finish_reserved finished_answers
end
