local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, moving, moved = unpack(KEYS)
local clock, cursor, limit, nonce = unpack(ARGV)
--
-- One step through a topic's schedules: they are taken out and kept in `moving` ("departure, next occurrence, declaration,
-- plan") until they have arrived. They do not fire meanwhile. Schedules left there come first. A damaged one stays. `nonce` is
-- unique.
-- Answers the next cursor, 1 if there are more, the ids of those that stay, then for each: id, what is kept.
-- include clock refuse_partitioned job departure depart limits handout_limits watch schedule

local answers, departure = {cursor, 1, {}}, nil
if redis.call('HLEN', moving) == 0 then
  local step = redis.call('HSCAN', plans, cursor, 'COUNT', limit)
  answers[1], answers[2] = step[1], step[1] ~= '0' and 1 or 0
  for i = 1, #step[2], 2 do
    local id, stored = step[2][i], step[2][i + 1]
    if #stored < SCHEDULE_SIZE then
      table.insert(answers[3], id)
    else
      local next = redis.call('ZSCORE', schedules, id) or ''
      redis.call('ZREM', schedules, id)  -- a removal first (clock.lua)
      departure = departure or new_departure(nonce, 0)
      local kept = {departure, next, redis.call('HGET', declared, id) or '', stored}
      redis.call('HSET', moving, id, table.concat(kept, '\n'))
      redis.call('HDEL', plans, id)
      redis.call('HDEL', declared, id)
    end
  end
  note_next_schedule()
end
local kept = redis.call('HGETALL', moving)
for i = 1, #kept, 2 do answers[#answers + 1] = {kept[i], kept[i + 1]} end
return answers
