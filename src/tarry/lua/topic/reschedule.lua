local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3 = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, due_time = unpack(ARGV, i, i + 1)
--
-- Sets another due time of jobs that are delayed or ready: a delay in µs from now, or "@" and a moment. Reserved and dead jobs
-- stay.
-- Answers for each the state it was in, or nothing.
-- include clock job run flags place limits handout_limits watch retries priorities order bytes

local FIRST, STRIDE = 2, 2
local function due_of(due_time)
  if string.sub(due_time, 1, 1) == '@' then return tonumber(string.sub(due_time, 2)) end
  return now + tonumber(due_time)
end

for i = FIRST, #ARGV, STRIDE do
  if due_of(ARGV[i + 1]) > LAST_MOMENT then return redis.error_reply('BEYOND the year 9999') end
end
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, due_time = unpack(ARGV, i, i + 1)
  local state = place_of(id)
  if state == 'delayed' or state == 'ready' then
    redis.call('ZREM', reserved, id)
    note_out(id)
    redis.call('ZADD', due, text(due_of(due_time)), id)
    note_in(id, due_of(due_time))
    note_retry(id, due_of(due_time), first_failure(id))
    index_again(id, text(due_of(due_time)))
  end
  answers[#answers + 1] = state or false
end
keep_retrying()
keep_bytes()
update_watch('', false, handout_limits())
return answers
