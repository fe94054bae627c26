local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3 = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, due_time, counted, max_attempts, fault = unpack(ARGV, i, i + 5)
--
-- Releases jobs, due after `due_time` µs, at "@" and a moment, or after the back-off of "~": two times in µs, that of the first
-- attempt, doubled by each further one, and the longest; or sets one aside, if this attempt counts and was the last.
-- Answers for each "delayed" or "dead", or "!" and why the receipt does not hold.
-- `counted`: 1, or 0: the attempt does not count, or 2: no handler saw the job either, so its share of the rate is refunded. Behind the 2
-- may be how many µs late it was: then its hand-out does not count either.
-- include clock job run count flags limits handout_limits watch capacity attempts bury max_attempts receipt retries priorities

-- Gives jobs' share of the rate back, if nobody has seen them: their consumer had stopped waiting. Only for as long as the rate
-- takes to let so many through: until then a quiet time cannot have made up for it; and not across a change of the rate
-- (`paced`).
local function refund(k, receipt)
  local limited, spent, paced = unpack(redis.call('HMGET', meta, 'limited', 'spent', 'paced'))
  if not limited or not spent then return end
  local n, span = string.match(limited, '^(%d+) (%d+) ')
  n, span, receipt = tonumber(n), tonumber(span), tonumber(receipt)
  if n == 0 or receipt <= tonumber(paced or 0) or now >= receipt + k * span / n then return end
  local since, used = string.match(spent, '^(%d+) (%d+)$')
  used = tonumber(used) - k
  local spans = math.max(math.ceil(-used / n), 0)
  redis.call('HSET', meta, 'spent', text(tonumber(since) - spans * span) .. ' ' .. text(used + spans * n))
end

local FIRST, STRIDE = 3, 6
local n = (#ARGV - FIRST + 1) / STRIDE
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
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, due_time, counted, max_attempts, fault = unpack(ARGV, i, i + 5)
  local run = redis.call('HGET', runs, id)
  local refusal = receipt_fault(id, receipt, run, redis.call('ZSCORE', reserved, id))
  local answer
  if refusal == 'replay' then
    answer = redis.call('ZSCORE', dead, id) and 'dead' or 'delayed'
  elseif refusal then
    answer, refused = '!' .. refusal, refused + 1
  else
    local attempt, limit, last, first, holder, before = unpack_run(run)
    if counted ~= '1' and fault == '' then fault = before end  -- nothing is said of this attempt
    limit = limit_of(limit, tonumber(max_attempts))
    redis.call('ZREM', reserved, id)
    if counted == '1' then
      if first == 0 then first = now end
      note_attempt(id, attempt, last, holder, fault)
    end
    if counted == '1' and limit > 0 and attempt >= limit then
      bury_run(id, attempt, limit, last, first, holder, EXHAUSTED .. fault)
      answer, died = 'dead', died + 1
    else
      local at = due_of(due_time, #answers, attempt)
      if counted ~= '1' then attempt = attempt - 1 end
      redis.call('ZADD', due, text(at), id)
      redis.call('HSET', runs, id, pack_run(attempt, limit, last, first, holder, string.sub(fault, 1, LONGEST_FAULT)))
      note_retry(id, at, first)
      index_again(id, text(at))
      answer, released = 'delayed', released + 1
      if counted ~= '1' and counted ~= '0' then
        unseen, given = unseen + 1, receipt
        local late = tonumber(string.sub(counted, 2))
        if late then uncounted[#uncounted + 1] = {late, tonumber(receipt), string.find(before, NOTE, 1, true)} end
      end
    end
  end
  answers[#answers + 1] = answer
end
keep_retrying()
count('released', released - #uncounted)
if #uncounted > 0 then
-- include put_backs
  for _, job in ipairs(uncounted) do take_out(unpack(job)) end
end
count('died', died)
count('refused', refused)
note_capacity(released + died)
if unseen > 0 then refund(unseen, given) end
update_watch('', false, handout_limits())
return answers
