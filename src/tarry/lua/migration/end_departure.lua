local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, keyed, by_key, turns, paces = unpack(KEYS)
local clock, departure = unpack(ARGV)
-- each: id, arrived = unpack(ARGV, i, i + 1)
--
-- Ends a departure: jobs that arrived ("1") are deleted here, the others are put back in their places. Only jobs of that
-- departure: if it has ended already, nothing is done. Answers how many were deleted.
-- include clock job run count flags limits handout_limits watch retries priorities order bytes by_key turns

local FIRST, STRIDE = 3, 2
local SETS, gone, back = {due = due, held = due, dead = dead}, 0, false
if redis.call('HGET', leaving, '') ~= departure then return 0 end
for i = FIRST, #ARGV, STRIDE do
  local id, arrived = unpack(ARGV, i, i + 1)
  local place = redis.call('HGET', leaving, id)
  local name, at = string.match(place or '', '^(%a+) (%d+)$')
  if place and arrived ~= '1' and not SETS[name or ''] then return redis.error_reply('NEWER place of the job ' .. id) end
  if place then
    redis.call('HDEL', leaving, id)
    if arrived == '1' then
      redis.call('HDEL', runs, id)
      redis.call('HDEL', attempts, id)
      gone = gone + redis.call('HDEL', jobs, id)
    else
      if name == 'dead' or not enter(id, at, nil, name == 'held') then
        redis.call('ZADD', SETS[name], at, id)
        if name ~= 'dead' then index_again(id, at) end
      end
      if name ~= 'dead' then
        note_retry(id, tonumber(at), first_failure(id))
        note_in(id, at)
      end
      back = true
    end
  end
end
if redis.call('HLEN', leaving) == 1 then redis.call('DEL', leaving) end
keep_retrying()
keep_bytes()
keep_turns()
count('deleted', gone)
if back then update_watch('', false, handout_limits()) end
return gone
