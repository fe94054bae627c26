local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock, id, states, ttr, holder = unpack(ARGV)
--
-- Hands out one job by its id, if it is in one of `states` ("delayed ready dead"), reserved for its TTR. Its attempts go on. The
-- pause and the limits of the topic do not count: it is an act by id, like kick.
-- Answers now, receipt, and of the job: id, head and body, attempt, due (of a dead job: when it died), TTR in µs; or nothing.
-- include clock job run count flags place limits handout_limits watch priorities order bytes by_key turns

local DEFAULT_TTR, DEFAULT_LIMIT = 60000000, 20
local state, at = place_of(id)
if not state or not string.find(states, state, 1, true) then return false end
local value = redis.call('HGET', jobs, id)
if not value then return false end
local flags, further, own_ttr, own_limit, _, _, _, size = read_head(value)
if not flags or not is_known(further) or size > #value then return false end

local over = redis.call('ZREM', reserved, id)  -- its TTR is over, else it would not be ready
note_out(id, nil, value)
if not leave(id, value) then redis.call('ZREM', due, id) end
redis.call('ZREM', dead, id)
if state == 'dead' then
-- include order unkept
  note_unkept(at, id)
  keep_unkept()
end
redis.call('ZREM', retrying, id)
local set = redis.call('HMGET', meta, 'last', 'ttr', 'max_attempts')
take_from_indexes({id})
local run = redis.call('HGET', runs, id)
local attempt, _, _, first, _, fault, _, was_counted_for = unpack_run(run or '')
local key = key_of(value)
if was_counted_for then free_place(was_counted_for, id) end
if key then take_place(key, id) end
local limit = own_limit > 0 and own_limit or tonumber(set[3] or DEFAULT_LIMIT)
if limit == NO_LIMIT then limit = 0 end
local time = own_ttr > 0 and own_ttr * 1000 or tonumber(ttr)
if time == 0 then time = tonumber(set[2] or DEFAULT_TTR) end
-- include next_receipt
redis.call('ZADD', reserved, text(now + time), id)
redis.call('HSET', runs, id, pack_run(attempt + 1, limit, receipt, first, holder, fault, false, key))
redis.call('HSET', meta, 'last', text(receipt))
keep_bytes()
keep_turns()
count('timed_out', run and over or 0)  -- without a run it is one that was updated (lib/expired_reservations.lua)
update_watch('', false, handout_limits())
return {now, receipt, id, value, attempt + 1, at, time}
