local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, after, step, limit = unpack(ARGV)
--
-- One bounded step through the keys that have jobs which wait or are reserved, behind the key `after`: at most `limit` of them. Of the jobs of all
-- keys, in the order of the keys, those at a distance of `step` are looked at: each key with as many jobs is among the answers.
-- Without a `step` it is a thousandth of the jobs. Changes nothing.
-- Answers the step, then each key and how many jobs it has.
-- include clock refuse_partitioned

local MOST = 1000
step = tonumber(step) or math.max(math.ceil(redis.call('ZCARD', by_key) / MOST), 1)
local answers, at = {step}, 0
if after ~= '' then
  local first = redis.call('ZLEXCOUNT', by_key, '-', '(' .. after .. '\0')
  local behind = redis.call('ZLEXCOUNT', by_key, '-', '(' .. after .. '\1')
  at = math.max(behind, first + step)
end
for _ = 1, limit do
  local entry = redis.call('ZRANGE', by_key, at, at)[1]
  if not entry then break end
  local key = string.match(entry, '^[^%z]*')
  local first = redis.call('ZLEXCOUNT', by_key, '-', '(' .. key .. '\0')
  local size = redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0', '(' .. key .. '\1')
  answers[#answers + 1], answers[#answers + 2] = key, size
  at = math.max(first + size, at + step)
end
return answers
