local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, part, cursor, limit = unpack(ARGV)
--
-- One bounded step through one key (jobs, runs, due, reserved, dead): is every job in exactly one place?
-- Of the jobs, each must be in a place; that none is in two, and no entry of a place is without a job, is proved by the numbers:
-- answers the next cursor, how many were read, how many entries the places have beyond one for each job (now, of the whole topic),
-- the headers of the jobs that have any, each with its id, and a fault and an id for each inconsistency.
-- With the part `twice` it reads the jobs again, for those in two places.
-- include clock job flags

local parts = {jobs = jobs, twice = jobs, runs = runs, due = due, keyed = keyed, reserved = reserved, dead = dead}
local places = {due, reserved, dead, keyed}
local is_hash = parts[part] == jobs or part == 'runs'
local step = redis.call(is_hash and 'HSCAN' or 'ZSCAN', parts[part], cursor, 'COUNT', limit)
local faults, headers = {}, {}
local function fault(what, id)
  faults[#faults + 1] = what
  faults[#faults + 1] = id
end

local function is_in_a_place(id)
  for i = 1, #places do
    if redis.call('ZSCORE', places[i], id) then
      if i > 1 then places[1], places[i] = places[i], places[1] end  -- its neighbours are mostly there, too
      return true
    end
  end
  return false
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
    if not is_in_a_place(id) then fault('in no place', id) end
    read(id, value)
  elseif part == 'twice' then
    local found = 0
    for _, set in ipairs(places) do
      if redis.call('ZSCORE', set, id) then found = found + 1 end
    end
    if found > 1 then fault('in more than one place', id) end
  elseif redis.call('HEXISTS', jobs, id) == 0 then
    fault(part == 'runs' and 'handed out, but there is no job' or part .. ', but there is no job', id)
  elseif part == 'reserved' and value + 0 > now and redis.call('HEXISTS', runs, id) == 0 then
    fault('reserved, but nobody knows by whom', id)
  end
end
local beyond = redis.call('ZCARD', due) + redis.call('ZCARD', keyed) + redis.call('ZCARD', reserved) + redis.call('ZCARD', dead) - redis.call('HLEN', jobs)
return {step[1], #step[2] / 2, beyond, headers, unpack(faults)}
