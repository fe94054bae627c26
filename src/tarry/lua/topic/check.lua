local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, part, cursor, limit = unpack(ARGV)
--
-- One bounded step through one key (jobs, runs, due, reserved, dead): is every job in exactly one place?
-- Answers the next cursor, how many were read, the headers of the jobs that have any, each with its id, and a fault and an id
-- for each inconsistency.
-- include clock job flags

local parts = {jobs = jobs, runs = runs, due = due, reserved = reserved, dead = dead}
local step = redis.call((part == 'jobs' or part == 'runs') and 'HSCAN' or 'ZSCAN', parts[part], cursor, 'COUNT', limit)
local faults, headers = {}, {}
local function fault(what, id)
  faults[#faults + 1] = what
  faults[#faults + 1] = id
end

-- Checks a record; its headers are checked by the caller.
local function read(id, value)
  local flags, further, _, _, _, _, first, last = read_head(value)
  if not flags then return fault('no readable head', id) end
  if not is_known(further) then return end  -- a newer version's, which can read it
  if last > #value then return fault('its headers do not end', id) end
  if last > first then
    headers[#headers + 1] = id
    headers[#headers + 1] = string.sub(value, first + 1, last)
  end
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
    read(id, value)
  elseif redis.call('HEXISTS', jobs, id) == 0 then
    fault(part == 'runs' and 'handed out, but there is no job' or part .. ', but there is no job', id)
  elseif part == 'reserved' and redis.call('HEXISTS', runs, id) == 0 then
    fault('reserved, but nobody knows by whom', id)
  end
end
return {step[1], #step[2] / 2, headers, unpack(faults)}
