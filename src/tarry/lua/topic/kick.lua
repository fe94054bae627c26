local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id = unpack(ARGV, i, i)
--
-- Makes dead jobs ready again, with no attempt counted. Answers for each the state it was in, or nothing.
-- include clock job count flags place limits handout_limits watch priorities order unkept bytes by_key turns

local FIRST, STRIDE = 2, 1
local answers, kicked = {}, 0
for i = FIRST, #ARGV, STRIDE do
  local id = ARGV[i]
  local state, since = place_of(id)
  if state == 'dead' then
    redis.call('ZREM', dead, id)
    note_unkept(since, id)
    redis.call('HDEL', runs, id)
    redis.call('HDEL', attempts, id)
    local at = now - (#ARGV - i) - 1
    if not enter(id, at) then
      redis.call('ZADD', due, text(at), id)
      index_again(id, text(at))
    end
    note_in(id, at)
    kicked = kicked + 1
  end
  answers[#answers + 1] = state or false
end
keep_unkept()
keep_bytes()
keep_turns()
count('kicked', kicked)
update_watch('', false, handout_limits())
return answers
