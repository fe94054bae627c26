local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared, moving, moved = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, departure, arrived = unpack(ARGV, i, i + 2)
--
-- Ends departures of schedules: those that arrived ("1") are deleted here; the others go on here, unless another one of the
-- name was put meanwhile. Only if that departure has not ended yet.
-- Answers how many were deleted.
-- include clock refuse_partitioned job limits handout_limits watch schedule

local FIRST, STRIDE = 2, 3
local gone = 0
for i = FIRST, #ARGV, STRIDE do
  local id, departure, arrived = unpack(ARGV, i, i + 2)
  local kept = redis.call('HGET', moving, id)
  if kept and string.match(kept, '^[^\n]*') == departure then
    redis.call('HDEL', moving, id)
    if arrived == '1' then
      gone = gone + 1
    else
      local _, next, declaration, stored = string.match(kept, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
      if redis.call('HSETNX', plans, id, stored) == 1 then
        if next ~= '' then redis.call('ZADD', schedules, next, id) end
        if declaration ~= '' then redis.call('HSET', declared, id, declaration) end
      end
    end
  end
end
note_next_schedule()
return gone
