local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, finished, results, keyed, by_key, turns, paces = unpack(KEYS)
local clock, place, side, from, to, past, limit = unpack(ARGV)
--
-- One page of one place (due, reserved, dead, retrying, finished), in order, from a moment up to a moment, after the id `past` among those of the
-- first moment. At most 1 MB of bodies and errors, at least one job. Each page costs the same, even if many jobs share a moment: it is
-- found by rank.
-- Answers now, 1 if there are more, then for each: id, state, moment, head and body, run, its
-- failed attempts; of a finished job its record in `results`.
-- include clock refuse_partitioned job place window order both_places

local ENOUGH = 1000000
SETS.finished = finished
local is_history = place == 'finished'
local records = is_history and results or jobs
local set, low, high = SETS[place], window(side, from, to)
limit = tonumber(limit)

local answers, bytes, since = {now, 0}, 0, low
if past ~= '' and tonumber(from) >= tonumber(low) then since = from else past = '' end
local found
if set == due then
  found = waiting_after(since, past, limit + 1, high)
else
  local first, last = rank_after(set, since, past), redis.call('ZCOUNT', set, '-inf', high) - 1
  found = first <= last and redis.call('ZRANGE', set, first, math.min(first + limit, last), 'WITHSCORES') or {}
end
for i = 1, #found, 2 do
  if i > 2 * limit or bytes > ENOUGH then
    answers[2] = 1
    break
  end
  local id = found[i]
  local value = redis.call('HGET', records, id) or ''
  local run = not is_history and redis.call('HGET', runs, id)
  bytes = bytes + #value + (run and #run or 0)
  local failed = run and redis.call('HGET', attempts, id)
  local state = is_history and place or (place_of(id))
  answers[#answers + 1] = {id, state, tonumber(found[i + 1]), value, run, failed}
end
return answers
