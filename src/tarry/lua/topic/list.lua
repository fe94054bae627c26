local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, finished, results = unpack(KEYS)
local clock, place, side, from, to, past, limit = unpack(ARGV)
--
-- One page of one place (due, reserved, dead, retrying, finished), in order, from a moment up to a moment, after the id `past` among those of the
-- first moment. At most 1 MB of bodies and errors, at least one job. Each page costs the same, even if many jobs share a moment: it is
-- found by rank.
-- Answers now, 1 if there are more, then for each: id, state, moment, head and body, run, its
-- failed attempts; of a finished job its record in `results`.
-- include clock refuse_partitioned job place window

local ENOUGH = 1000000
SETS.finished = finished
local is_history = place == 'finished'
local records = is_history and results or jobs
local set, low, high = SETS[place], window(side, from, to)
limit = tonumber(limit)

local function before(score) return redis.call('ZCOUNT', set, '-inf', '(' .. score) end

-- Whether a comes after b in a sorted set: byte by byte (Lua's own order depends on the server's locale).
local function is_after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

local first, last = before(low), redis.call('ZCOUNT', set, '-inf', high) - 1
if past ~= '' then
  local left, right = before(from), redis.call('ZCOUNT', set, '-inf', from)
  while left < right do
    local middle = math.floor((left + right) / 2)
    if is_after(redis.call('ZRANGE', set, middle, middle)[1], past) then right = middle else left = middle + 1 end
  end
  first = math.max(first, left)
end

local answers, bytes = {now, 0}, 0
local found = first <= last and redis.call('ZRANGE', set, first, math.min(first + limit, last), 'WITHSCORES') or {}
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
