local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, part, cursor, limit = unpack(ARGV)
--
-- One bounded step through one part (jobs, runs, due, reserved, dead): is every job in exactly one place?
-- Answers the next cursor, how many were looked at, then a fault and an id for whatever is wrong.
-- include clock job

local parts = {jobs = jobs, runs = runs, due = due, reserved = reserved, dead = dead}
local step = redis.call((part == 'jobs' or part == 'runs') and 'HSCAN' or 'ZSCAN', parts[part], cursor, 'COUNT', limit)
local answers = {step[1], #step[2] / 2}
local function fault(what, id)
  answers[#answers + 1] = what
  answers[#answers + 1] = id
end

for i = 1, #step[2], 2 do
  local id, value = step[2][i], step[2][i + 1]
  if part == 'jobs' then
    local places = 0
    for _, set in ipairs({due, reserved, dead}) do
      if redis.call('ZSCORE', set, id) then places = places + 1 end
    end
    if places == 0 then fault('in no place', id) end
    if places > 1 then fault('in more than one place', id) end
    if #value < 28 then fault('no readable head', id) end
  elseif redis.call('HEXISTS', jobs, id) == 0 then
    fault(part == 'runs' and 'handed out, but there is no job' or part .. ', but there is no job', id)
  elseif part == 'reserved' and redis.call('HEXISTS', runs, id) == 0 then
    fault('reserved, but nobody knows by whom', id)
  end
end
return answers
