local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, keyed, by_key, turns, paces = unpack(KEYS)
local clock, limit, nonce, overtaken, above = unpack(ARGV)
--
-- Takes up to `limit` jobs out of their place, those due first (also if their reservation is over), then dead ones, and keeps their places in `leaving` until the
-- jobs have arrived; its field '' is the departure. Jobs left there come first. At most 1 MB. A job
-- that holds its key is "held" there, not "due": for when it is put back. `nonce` is unique. A departure
-- that was `overtaken` at its destination, by number `above` (this server has lost what it had done, and its clock is behind), gets
-- another number.
-- Answers the departure, then for each: id, place ("due 1700000000000000"), head and body, run,
-- its failed attempts.
-- include clock refuse_partitioned job flags departure depart priorities order unkept bytes by_key turns

local ENOUGH = 1000000
limit = tonumber(limit)

local function take(set, name)
  local bytes = 0
  local found = redis.call('ZRANGE', set, 0, limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if bytes >= ENOUGH then break end
    local id = found[i]
    bytes = bytes + redis.call('HSTRLEN', jobs, id)
    if name == 'due' then note_out(id, found[i + 1]) end
    local holds = false
    if set == keyed then holds = select(2, leave(id)) else redis.call('ZREM', set, id) end
    if name == 'dead' then note_unkept(tonumber(found[i + 1]), id) end
    redis.call('ZREM', retrying, id)
    take_from_indexes({id})
    redis.call('HSET', leaving, id, (holds and 'held' or name) .. ' ' .. text(tonumber(found[i + 1])))
  end
end

local departure = redis.call('HGET', leaving, '')
if redis.call('HLEN', leaving) == (departure and 1 or 0) then
  redis.call('DEL', leaving)
  departure = false
  local scales = {note_in = note_in}  -- of those that are put back
  local over = redis.call('ZRANGE', reserved, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  if #over > 0 then
-- include run count attempts bury expired_reservations
    put_back(over)
  end
  take(due, 'due')
  if redis.call('HLEN', leaving) == 0 then take(keyed, 'due') end
  if redis.call('HLEN', leaving) == 0 then take(dead, 'dead') end
  keep_unkept()
  keep_bytes()
  keep_turns()
  if redis.call('HLEN', leaving) == 0 then return {''} end
end
if not departure or departure == overtaken then
  redis.call('HDEL', leaving, '')  -- a removal first (clock.lua)
  departure = new_departure(nonce, tonumber(above))
  redis.call('HSET', leaving, '', departure)
end
local kept, answers = redis.call('HGETALL', leaving), {departure}
for i = 1, #kept, 2 do
  local id = kept[i]
  local value = redis.call('HGET', jobs, id)
  if value then
    answers[#answers + 1] = {id, (string.gsub(kept[i + 1], '^held', 'due')), value, redis.call('HGET', runs, id), redis.call('HGET', attempts, id)}
  elseif id ~= '' then
    redis.call('HDEL', leaving, id)  -- deleted while it was leaving
  end
end
return answers
