local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, from, width, buckets = unpack(ARGV)
--
-- Counts jobs by their due times: `buckets` counts of `width` µs each, the first beginning `from` µs after now, or at "@" and a
-- moment.
-- Costs the same for three jobs and for a million. Answers now, jobs before, the counts, jobs after.
-- include clock refuse_partitioned

local function count_due(from, to) return redis.call('ZCOUNT', due, from, to) + redis.call('ZCOUNT', keyed, from, to) end

local absolute = string.match(from, '^@(.+)')
local start, answers = tonumber(absolute) or now + tonumber(from), {now}
answers[2] = count_due('-inf', '(' .. text(start))
for i = 1, tonumber(buckets) do
  local stop = start + tonumber(width)
  answers[#answers + 1] = count_due(text(start), '(' .. text(stop))
  start = stop
end
answers[#answers + 1] = count_due(text(start), '+inf')
return answers
