local due, reserved, dead, jobs, runs, meta, watch, wake, relay, leaving = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, place, value, run = unpack(ARGV, i, i + 3)
--
-- Jobs come from another topic, as they were: due times, attempts and faults are kept, receipts are not.
-- Answers for each 1, or 0 where another job has the id, or this one is about to leave: then this topic is the one it
-- comes from, by another URL. The same job again is there already: its answer was lost.
-- include clock plain job limits gates watch

local FIRST, STRIDE = 2, 4
local SETS, answers = {due = due, dead = dead}, {}
for i = FIRST, #ARGV, STRIDE do
  local id, place, value, run = unpack(ARGV, i, i + 3)
  local name, at = string.match(place, '^(%a+) (%d+)$')
  if not SETS[name or ''] then return redis.error_reply('NEWER place of the job ' .. id) end
  if redis.call('HEXISTS', leaving, id) == 1 then
    answers[#answers + 1] = 0
  elseif redis.call('HSETNX', jobs, id, value) == 1 then
    redis.call('ZADD', SETS[name], at, id)
    if run ~= '' then
      local attempt, limit, _, first, _, fault = unpack_run(run)
      redis.call('HSET', runs, id, pack_run(attempt, limit, 0, first, '', fault))
    end
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = redis.call('HGET', jobs, id) == value and 1 or 0
  end
end
settle('', false, read_gates())
return answers
