local due, reserved, dead, jobs, runs, meta, watch, wake, relay, schedules, plans, declared = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, version, rhythm, about, value, next, after = unpack(ARGV, i, i + 6)
--
-- A worker declares its schedules, at its start and every minute. `declared` keeps for each when its current version was last
-- declared, that version, and those it has replaced. A new version replaces the current one. A replaced version comes from an
-- older worker beside a newer one, and changes nothing, unless the current one has not been declared for LEASE: then the newer
-- worker has gone (docs/decisions/0020-schedules-without-a-leader.md).
--
-- Answers now, how many schedules code has declared here, then for each: 0 unchanged, 1 to be changed (call again with `next`),
-- 2 a newer version is current, 3 a schedule of this id was not declared by code.
-- include clock refuse_partitioned job limits handout_limits watch schedule

local FIRST, STRIDE, LEASE, MOST = 2, 7, 150000000, 8
local answers, changed = {now, 0}, false

local function judge(id, version)
  local entry, there = redis.call('HGET', declared, id), redis.call('HEXISTS', plans, id) == 1
  if not entry then return there and 3 or 1, {} end
  local words = {}
  for nonce in string.gmatch(entry, '%S+') do words[#words + 1] = nonce end
  local affirmed, present = tonumber(words[1]), words[2]
  if present == version and there then return 0, words end
  for k = 3, #words do
    if words[k] == version and affirmed > now - LEASE then return 2 end
  end
  return 1, words
end

-- Stores the current version, and those before it.
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
