local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, stale, keyed, by_key, turns, paces = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, nonce, only = unpack(ARGV, i, i + 2)
--
-- Deletes jobs in any state; a consumer that has one learns it when it settles. With a nonce, only the job that was added with
-- it: another one with this id stays, and the answer is nothing. With a state in `only`, a job in another state stays.
-- A job that `migrate` is moving is deleted here too.
-- Answers for each the state it was in, or nothing.
-- include clock job run count nonce flags place migrated_job stale priorities order unkept bytes by_key turns take_out

local FIRST, STRIDE = 2, 3
local answers, deleted, ended = {}, 0, 0
for i = FIRST, #ARGV, STRIDE do
  local id, nonce, only = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local meant = nonce == '' or nonce_of(redis.call('HGET', jobs, id) or '') == nonce
  local state = meant and (place_of(id) or leaving_state(id))
  local stays = only ~= '' and state ~= only
  if state and not stays then
    ended = ended + (take_out(id))
    deleted = deleted + 1
  end
  if meant and not stays then
    redis.call('HDEL', runs, id)
    redis.call('HDEL', jobs, id)
  end
  answers[#answers + 1] = state or false
end
keep_stale()
keep_unkept()
keep_bytes()
count('deleted', deleted)
keep_turns()
if ended > 0 and (uses_keys() or redis.call('HEXISTS', meta, 'concurrency') == 1) then
-- include limits handout_limits watch capacity
  if note_capacity(ended) or uses_keys() then update_watch('', false, handout_limits()) end
end
return answers
