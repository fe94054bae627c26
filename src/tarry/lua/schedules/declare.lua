local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, version, rhythm, about, value, next, after = unpack(ARGV, i, i + 6)
--
-- What the code of a worker says of its schedules, at its start and every minute. `declared` keeps of each when its present
-- version was last said, that version, and those it has replaced. A version that is new replaces the present one. One that
-- was replaced is an older worker beside a newer one, and changes nothing, unless nobody has said the present one for LEASE:
-- then that has gone (docs/decisions/0020-schedules-without-a-leader.md).
--
-- Answers now, how many schedules code has here, then for each: 0 as it is, 1 it has to change (say it again with `next`),
-- 2 a newer version is about, 3 somebody else has put a schedule of this name.
-- include clock refuse_partitioned job limits settle_args watch schedule

local FIRST, STRIDE, LEASE, MOST = 2, 7, 150000000, 8
local answers, changed = {now, 0}, false

local function judge(id, version)
  local said, there = redis.call('HGET', declared, id), redis.call('HEXISTS', plans, id) == 1
  if not said then return there and 3 or 1, {} end
  local words = {}
  for nonce in string.gmatch(said, '%S+') do words[#words + 1] = nonce end
  local affirmed, present = tonumber(words[1]), words[2]
  if present == version and there then return 0, words end
  for k = 3, #words do
    if words[k] == version and affirmed > now - LEASE then return 2 end
  end
  return 1, words
end

-- The version now in force, and those before it.
local function write_version(id, version, words)
  local kept = {text(now), version}
  for k = 2, #words do
    if words[k] ~= version and #kept < MOST then kept[#kept + 1] = words[k] end
  end
  redis.call('HSET', declared, id, table.concat(kept, ' '))
end

for i = FIRST, #ARGV, STRIDE do
  local id, version, rhythm, about, value, next, after = unpack(ARGV, i, i + 6)
  local verdict, words = judge(id, version)
  if verdict == 1 and next ~= '' then
    define(id, rhythm, about, value, next, after)
    verdict, changed = 0, true
  end
  if verdict == 0 then write_version(id, version, words) end
  answers[#answers + 1] = verdict
end
if #ARGV >= FIRST or redis.call('HLEN', declared) > 0 then redis.call('HSET', declared, '', text(now)) end
if changed then note_next_schedule() end
answers[2] = math.max(redis.call('HLEN', declared) - 1, 0)
return answers
