local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, leaving, finished, results, keyed, by_key, turns, paces = unpack(KEYS)
local clock, history = unpack(ARGV)
-- each: id = unpack(ARGV, i, i)
--
-- Reads jobs and changes nothing. Answers now, then for each: id, state, the moment of that state, head and body, run,
-- its failed attempts; or nothing. A job that `migrate` is moving is answered in its old state.
-- history: 1, if of an id without such a job a finished one is answered: its record in `results` instead of head and body.
-- include clock refuse_partitioned job place migrated_job

local FIRST, STRIDE = 3, 1
local answers = {now}
for i = FIRST, #ARGV, STRIDE do
  local id = ARGV[i]
  local state, since = place_of(id)
  if not state then state, since = leaving_state(id) end
  local value = state and redis.call('HGET', jobs, id)
  local ends = history == '1' and not state and redis.call('ZSCORE', finished, id)
  local record = ends and tonumber(ends) > now and redis.call('HGET', results, id)
  answers[#answers + 1] = record and {id, 'finished', tonumber(ends), record, false, false} or value and {id, state, since, value, redis.call('HGET', runs, id), redis.call('HGET', attempts, id)} or false
end
return answers
