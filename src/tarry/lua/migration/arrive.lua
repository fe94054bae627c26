local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, arrived, keyed, by_key, turns, paces = unpack(KEYS)
local clock, departure = unpack(ARGV)
-- each: id, place, value, run, failed = unpack(ARGV, i, i + 4)
--
-- Adds jobs from another topic, as they were: due times, attempts and faults are kept, receipts are not. The answers to the
-- last departure of each source are kept for a month, in `arrived` ("departure", then a line for each: "1id" or "0id"): a
-- repeated call gets the same answers, whatever has become of the jobs here.
-- Answers for each 1, or 0 if another job has the id, or if the job is in `leaving` here: then this topic is its own source, by
-- another URL. Answers only a number if a later departure of the source, of that number, has arrived here.
-- include clock refuse_partitioned job run flags departure limits handout_limits watch retries priorities order unkept bytes by_key turns

local FIRST, STRIDE, MONTH = 3, 5, 2592000
local SETS, answers, told, news = {due = due, dead = dead}, {}, {}, {}
local source, number = departure_of(departure)
local known = redis.call('HGET', arrived, source) or departure
local last = string.match(known, '^[^\n]*')
if last == departure then
  for answer, id in string.gmatch(known, '\n([01])([^\n]+)') do told[id] = tonumber(answer) end
else
  local _, latest = departure_of(last)
  if latest >= number then return latest end
  known = departure
end
for i = FIRST, #ARGV, STRIDE do
  local name = string.match(ARGV[i + 1], '^(%a+) %d+$')
  if not SETS[name or ''] then return redis.error_reply('NEWER place of the job ' .. ARGV[i]) end
end

local function take_in(id, place, value, run, failed)
  if redis.call('HEXISTS', leaving, id) == 1 then return 0 end
  if redis.call('HSETNX', jobs, id, value) == 0 then return redis.call('HGET', jobs, id) == value and 1 or 0 end
  local name, at = string.match(place, '^(%a+) (%d+)$')
  local has_key = name == 'due' and enter(id, at, value)
  if not has_key then redis.call('ZADD', SETS[name], at, id) end
  if name == 'dead' then note_unkept(now + 1, '', tonumber(at)) end  -- a reader may have passed the moment of its death
  if name == 'due' then note_in(id, at, value) end
  local priority = priority_of(string.byte(value, FLAGS_AT) or 0)
  if name == 'due' and priority > 0 and not has_key then index_jobs(priority, {at, id}) end
  if run ~= '' then
    local attempt, limit, _, first, _, fault, is_changed = unpack_run(run)
    redis.call('HSET', runs, id, pack_run(attempt, limit, 0, first, '', fault, is_changed))
    if failed ~= '' then redis.call('HSET', attempts, id, failed) end
    if name == 'due' then note_retry(id, tonumber(at), first) end
  end
  return 1
end

for i = FIRST, #ARGV, STRIDE do
  local id = ARGV[i]
  if not told[id] then
    told[id] = take_in(unpack(ARGV, i, i + 4))
    news[#news + 1] = '\n' .. told[id] .. id
  end
  answers[#answers + 1] = told[id]
end
if #news > 0 then
  redis.call('HSET', arrived, source, known .. table.concat(news))
  redis.call('EXPIRE', arrived, MONTH)
end
keep_retrying()
keep_unkept()
keep_bytes()
keep_turns()
update_watch('', false, handout_limits())
return answers
