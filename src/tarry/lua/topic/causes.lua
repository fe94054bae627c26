local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, from, limit = unpack(ARGV)
--
-- Why jobs are dead, one bounded step: the jobs from a rank on, the last to die first, grouped by their reason and the last
-- line of their error. Answers the number of dead jobs, how many were read, then for each group: reason, error, jobs, the last
-- to die, when it did, when the first of them did; ordered by the last.
-- include clock refuse_partitioned job

local LONGEST, TAIL, NEWLINE, BLANK = 200, 400, 10, 32

-- The last line that is not blank; byte by byte from the end, for a pattern would go through all of it.
local function last_line(fault, after)
  local stop = #fault
  while stop > after and string.byte(fault, stop) <= BLANK do stop = stop - 1 end
  local start = stop
  while start > after and stop - start < TAIL and string.byte(fault, start) ~= NEWLINE do start = start - 1 end
  return string.sub(fault, start + 1, math.min(stop, start + LONGEST))
end

local found = redis.call('ZRANGE', dead, from, from + limit - 1, 'REV', 'WITHSCORES')
local ids, groups, order = {}, {}, {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
local faults = #ids > 0 and redis.call('HMGET', runs, unpack(ids)) or {}
for i, id in ipairs(ids) do
  local _, _, _, _, _, fault = unpack_run(faults[i] or '')
  local ends = string.find(fault, '\n', 1, true) or #fault + 1
  local reason = string.sub(fault, 1, math.min(ends - 1, LONGEST))
  local last = last_line(fault, math.min(ends, #fault))
  local name, died = #reason .. ':' .. reason .. last, tonumber(found[2 * i])
  local group = groups[name]
  if not group then
    group = {reason, last, 0, id, died, died}
    groups[name], order[#order + 1] = group, group
  end
  group[3], group[6] = group[3] + 1, died
end
return {redis.call('ZCARD', dead), #ids, unpack(order)}
