local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, due_time, counted, max_attempts, fault = unpack(ARGV, i, i + 5)
--
-- Releases jobs, due after `due_time` µs, at "@" and a moment, or after the back-off of "~": two times in µs, that of the first
-- attempt, doubled by each further one, and the longest; or sets one aside, if this attempt counts and was the last. A job that was
-- changed since (lib/update.lua) is not set aside: its attempts count from zero.
-- Answers for each "delayed" or "dead", or "!" and why the receipt does not hold.
-- `counted`: 1, or 0: the attempt does not count, or 2: no handler saw the job either, so its share of the rate is refunded. Behind the 2
-- may be how many µs late it was: then its hand-out does not count either.
-- include clock job run count attempts max_attempts retries

local FIRST, STRIDE = 3, 6
local LONGEST_FAULT, EXHAUSTED = 8192, 'attempts exhausted\n'
-- include reservations
local function due_of(due_time, index, attempt)
  if string.sub(due_time, 1, 1) == '@' then return tonumber(string.sub(due_time, 2)) end
  local delay = tonumber(due_time)
  if not delay then
    local first, longest = string.match(due_time, '^~(%d+) (%d+)$')
    delay = math.min(first * 2 ^ math.min(math.max(attempt, 1) - 1, 100), tonumber(longest))
  end
  if delay == 0 then return now - n + index end  -- at once, in order: a pop that follows finds them all
  return now + delay + index
end

for i = FIRST, #ARGV, STRIDE do
  if due_of(ARGV[i + 2], 0, 1) > LAST_MOMENT then return redis.error_reply('BEYOND the year 9999') end
end
local answers, released, died, refused, unseen, given, uncounted = {}, 0, 0, 0, 0, nil, {}
local fault_of, failures = nil, nil  -- of lib/receipt.lua, once a receipt may not hold; the attempts that failed before, once one failed
local settled, became, ready, buried, notes, failed, freed, holds, soonest = {}, {}, {}, {}, {}, {}, {}, {}, math.huge  -- what is written below
for k, id in ipairs(ids) do
  local _, receipt, due_time, counted, max_attempts, fault = unpack(ARGV, FIRST + STRIDE * (k - 1), FIRST + STRIDE * k - 1)
  local run, at, refusal, answer = known[k], ends[k], nil, nil
  if became[id] or not run or not at or at + 0 <= now
    or string.sub(run, RECEIPT_AT, RECEIPT_ENDS) ~= struct.pack('<d', tonumber(receipt) or -1) then
    if not fault_of then
-- include receipt
      fault_of = receipt_fault
    end
    refusal = fault_of(id, receipt, run, not became[id] and at)
    if refusal == 'released' and became[id] == 'dead' then refusal = 'dead' end  -- by this very script
  end
  if refusal == 'replay' then
    answer = became[id] or redis.call('ZSCORE', dead, id) and 'dead' or 'delayed'
  elseif refusal then
    answer, refused = '!' .. refusal, refused + 1
  else
    local attempt, limit, last, first, holder, before, is_changed, key = unpack_run(run)
    if key and not keyed then return redis.error_reply('KEYED a job of the topic has a key') end
    if key then freed[#freed + 1] = {key, id} end
    if counted ~= '1' and fault == '' then fault = before end  -- nothing is said of this attempt
    limit = limit_of(limit, tonumber(max_attempts))
    if counted == '1' then
      if first == 0 then first = now end
      failures = failures or redis.call('HMGET', attempts, unpack(ids))
      failed[#failed + 1], failed[#failed + 2] = id, with_attempt(failures[k] or '', attempt, last, holder, fault)
    end
    local is_last = counted == '1' and limit > 0 and attempt >= limit
    if is_last and not is_changed then
      buried[#buried + 1], buried[#buried + 2] = text(now), id
      fault = EXHAUSTED .. fault
      answer, died = 'dead', died + 1
    else
      local due_at = due_of(due_time, #answers, attempt)
      if counted ~= '1' then attempt = attempt - 1 end
      if is_last then attempt = 0 end
      ready[#ready + 1], ready[#ready + 2] = text(due_at), id
      soonest = math.min(soonest, due_at)
      holds[id] = counted == '1' or due_time == '0'  -- it failed, or is to go on at once
      note_retry(id, due_at, first)
      answer, released = 'delayed', released + 1
      if counted ~= '1' and counted ~= '0' then
        unseen, given = unseen + 1, receipt
        local late = tonumber(string.sub(counted, 2))
        if late then uncounted[#uncounted + 1] = {late, tonumber(receipt), string.find(before, NOTE, 1, true)} end
      end
    end
    settled[#settled + 1], became[id] = id, answer
    notes[#notes + 1] = id
    notes[#notes + 1] = pack_run(attempt, limit, last, first, holder, string.sub(fault, 1, LONGEST_FAULT), is_changed)
  end
  answers[k] = answer
end
local set = redis.call('HMGET', meta, 'ruled', 'priorities', 'bytes', 'retry_holds_key')
if #settled > 0 then
  redis.call('ZREM', reserved, unpack(settled))
  redis.call('HSET', runs, unpack(notes))
  if #failed > 0 then redis.call('HSET', attempts, unpack(failed)) end
  if #buried > 0 then redis.call('ZADD', dead, unpack(buried)) end
  local plain = ready
  if keyed then
-- include flags priorities by_key turns
    for _, one in ipairs(freed) do free_place(unpack(one)) end
    plain = enter_many(ready, set[4] and holds or {})
    keep_turns()
  end
  if #plain > 0 then redis.call('ZADD', due, unpack(plain)) end
  keep_retrying()
  if set[2] then
-- include flags priorities
    for i = 1, #plain, 2 do index_again(plain[i + 1], plain[i]) end
  end
  if set[3] then
-- include flags order bytes
    for i = 1, #ready, 2 do note_in(ready[i + 1], ready[i]) end
    keep_bytes()
  end
end
count('failed', #failed / 2)
count('released', released - #uncounted)
if #uncounted > 0 then
-- include put_backs
  for _, job in ipairs(uncounted) do take_out(unpack(job)) end
end
count('died', died)
count('refused', refused)
if set[1] or soonest <= now + HORIZON and tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]) >= soonest then
-- include limits handout_limits watch capacity refund
  note_capacity(released + died)
  if unseen > 0 then refund(unseen, given) end
  update_watch('', false, handout_limits())  -- else: a job that is not the earliest, or is due late, changes no alarm
end
return answers
