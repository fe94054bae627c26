local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, leaving = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id = unpack(ARGV, i, i)
--
-- Reads jobs and changes nothing. Answers now, then for each: id, state, the moment of that state, head and body, run,
-- its failed attempts; or nothing. A job that `migrate` is moving is answered in its old state.
-- include clock refuse_partitioned job migrated_job

local FIRST, STRIDE = 2, 1
local answers = {now}
for i = FIRST, #ARGV, STRIDE do
  local id = ARGV[i]
  local state, since = place_of(id)
  if not state then state, since = leaving_state(id) end
  local value = state and redis.call('HGET', jobs, id)
  answers[#answers + 1] = value and {id, state, since, value, redis.call('HGET', runs, id), redis.call('HGET', attempts, id)} or false
end
return answers
