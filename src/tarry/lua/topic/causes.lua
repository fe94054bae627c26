local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, limit = unpack(ARGV)
--
-- Why jobs are dead: the `limit` that died last, grouped by their reason and the last line of their error.
-- Answers the dead, how many of them were looked at, then of each group: reason, error, jobs, the last to die, when it
-- did, when the first of them did. The largest groups first, a hundred at most.
-- include clock job

local GROUPS, LONGEST, TAIL = 100, 200, 400
local found = redis.call('ZRANGE', dead, 0, limit - 1, 'REV', 'WITHSCORES')
local ids, groups, order = {}, {}, {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
local faults = #ids > 0 and redis.call('HMGET', runs, unpack(ids)) or {}
for i, id in ipairs(ids) do
  local _, _, _, _, _, fault = unpack_run(faults[i] or '')
  local reason, rest = string.match(fault, '^([^\n]*)\n?(.*)$')
  local tail = string.match(string.sub(rest, -TAIL), '^(.-)%s*$')
  local last = string.match(tail, '.*\n(.*)$') or tail
  reason, last = string.sub(reason, 1, LONGEST), string.sub(last, 1, LONGEST)
  local name, died = #reason .. ':' .. reason .. last, tonumber(found[2 * i])
  local group = groups[name]
  if not group then
    group = {reason, last, 0, id, died, died}
    groups[name], order[#order + 1] = group, group
  end
  group[3], group[6] = group[3] + 1, died
end
table.sort(order, function(a, b)
  if a[3] ~= b[3] then return a[3] > b[3] end
  return a[5] > b[5]
end)
local answers = {redis.call('ZCARD', dead), #ids}
for i = 1, math.min(#order, GROUPS) do answers[#answers + 1] = order[i] end
return answers
