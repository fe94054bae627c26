local clock = unpack(ARGV)
--
-- Looks at several topics that have jobs or schedules, each by three keys: due, reserved, meta. Changes nothing.
-- Answers the numbers, from 1, of those that must be popped from now: where something falls due before the next look, or the totals of
-- this minute are to be kept (lib/minutes.lua), or something is damaged, or partitioned by now. Their pops will tell.
-- include clock

local KEYS_PER_TOPIC, soon, minute = 3, now + HORIZON, math.floor(now / 60000000)

local function is_quiet(due, reserved, meta)
  local set = redis.pcall('HMGET', meta, 'last', 'minute', 'fires', 'keyed_next')
  if set.err or math.min(tonumber(set[3]) or math.huge, tonumber(set[4]) or math.huge) <= soon then return false end
  if set[1] and minute > (tonumber(set[2]) or 0) then return false end
  for _, key in ipairs({due, reserved}) do
    local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first.err or (tonumber(first[2]) or math.huge) <= soon then return false end
  end
  return true
end

local found = {}
for i = 1, #KEYS, KEYS_PER_TOPIC do
  if not is_quiet(KEYS[i], KEYS[i + 1], KEYS[i + 2]) then found[#found + 1] = (i - 1) / KEYS_PER_TOPIC + 1 end
end
return found
