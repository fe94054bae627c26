local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, due_time = unpack(ARGV, i, i + 1)
--
-- Sets another due time of jobs that are delayed or ready: a delay in µs from now, or "@" and a moment. Reserved and dead jobs
-- stay.
-- Answers for each the state it was in, or nothing.
-- include clock job run flags place limits handout_limits watch retries priorities order bytes by_key turns

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
    local at = due_of(due_time)
    note_out(id)
    if redis.call('ZREM', reserved, id) == 1 and uses_keys() then free_place(key_of_run(id), id) end
    leave(id)
    if not enter(id, at) then
      redis.call('ZADD', due, text(at), id)
      index_again(id, text(at))
    end
    note_in(id, at)
    note_retry(id, at, first_failure(id))
  end
  answers[#answers + 1] = state or false
end
keep_retrying()
keep_bytes()
keep_turns()
update_watch('', false, handout_limits())
return answers
