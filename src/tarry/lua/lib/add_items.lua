-- Adds the items of a script, as topic/add.lua says, but for those in `ended`; `answers` is what it answers.

local FIRST, STRIDE = 5, 3
local n = (#ARGV - FIRST + 1) / STRIDE

local stamp = struct.pack(MOMENT, now)  -- a value as it is sent lacks it
local bounds, keys_used
if lease ~= second then
  bounds, keys_used = unpack(redis.call('HMGET', meta, 'bounds', 'keys'))
  if keys_used and not keyed then return redis.error_reply('KEYED a job of the topic has a key') end
end
for i = FIRST, keyed and 0 or #ARGV, STRIDE do
  local value = ARGV[i + 2]
  if string.byte(value) >= FURTHER and select(10, read_head(stamp .. value)) then return redis.error_reply('KEYED a job of the topic has a key') end
end
local keys  -- of lib/by_key.lua, where the keys of jobs with a key are declared
if keyed then
-- include run priorities by_key turns new_with_keys
  keys = {enter = enter, enter_new = enter_new, write_new = write_new, leave = leave, key_of_run = key_of_run, free_place = free_place, keep = keep_turns}
end
local gate  -- of lib/bounds.lua, where the topic has limits for producers
if bounds then
-- include bounds
  gate = {is_new = is_new, has_room_for = has_room_for, note_full = note_full, enter = enter, leave = leave, keep = keep_bytes, size = body_size}
end

-- What the `mark_and_due` that `due_of` got last says: its mark, its `latest`, and a moment or a delay. Most items have that of the item
-- before.
local parsed, mark, latest, moment, delay

local function due_of(index, mark_and_due, since)
  if mark_and_due ~= parsed then
    parsed, mark, latest = mark_and_due, string.sub(mark_and_due, 1, 1), nil
    local from = mark == 's' and 2 + NONCE_SIZE or 2
    if mark == 'l' then latest, from = string.match(mark_and_due, '^l(%d+) ()') end
    local is_moment = string.sub(mark_and_due, from, from) == '@'
    local us = tonumber(string.sub(mark_and_due, is_moment and from + 1 or from))
    moment, delay = is_moment and us, not is_moment and us
  end
  if moment then return moment end
  if delay == 0 then return since - n + index end
  return since + delay + index
end

if mode == 'all' then
-- include place migrated_job
  for i = FIRST, #ARGV, STRIDE do
    local id, mark_and_due, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if mark_and_due ~= parsed and due_of(n, mark_and_due, now) > LAST_MOMENT then return redis.error_reply('BEYOND the year 9999') end
    if mark == 'e' then
      local old = redis.call('HGET', jobs, id)
      if old and nonce_of(old) ~= nonce_of(stamp .. value) then
        local state, since = place_of(id)
        if not state then state, since = leaving_state(id) end
        return 'EXISTS ' .. (i - FIRST) / STRIDE .. ' ' .. (state or 'lost') .. ' ' .. text(since or now)
      end
    end
  end
  if gate and lease ~= 'moved' then
    local more, size, seen, was_added = 0, 0, {}, false  -- the last: by the first call, though some of its jobs may have ended since
    for i = FIRST, #ARGV, STRIDE do
      local id, mark, value = ARGV[i], string.sub(ARGV[i + 1], 1, 1), stamp .. ARGV[i + 2]
      if not seen[id] and not (ended and ended[i]) and gate.is_new(id, mark, value) then more, size = more + 1, size + gate.size(value) end
      was_added = was_added or is_replay == '1' and nonce_of(redis.call('HGET', jobs, id) or '') == nonce_of(value)
      seen[id] = true
    end
    if not was_added and not gate.has_room_for(more, size) then
      gate.note_full(n)
      gate.keep()
      return 'FULL'
    end
  end
end

local answers, scores, values = {bounds and -now or now}, {}, {}  -- `scores` and `values` are the arguments of ZADD and HSET
local added, created, repeated, replaced, full, soonest, keyed_soonest = 0, 0, 0, 0, 0, math.huge, math.huge
local urgent, handle  -- id → moment and priority, of those that have one; of lib/taken_id.lua, once an id is taken

local function put(id, at, value)
  if gate then gate.enter(id, at, stamp .. value) end
  local flags = string.byte(value)
  if keys and flags >= FURTHER and keys.enter_new(id, at, stamp .. value) then
    keyed_soonest = math.min(keyed_soonest, at)
    return at
  end
  scores[2 * added + 1], scores[2 * added + 2] = at, id
  added = added + 1
  if at < soonest then soonest = at end
  if flags > RAW and priority_of(flags) > 0 then
    urgent = urgent or {}
    urgent[id] = {at, priority_of(flags)}
  end
  return at
end

for index = 0, n - 1 do
  local i = FIRST + STRIDE * index
  local id, mark_and_due, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local at, answer = due_of(index, mark_and_due, now), ended and ended[i]
  if latest and at > now + latest then at = now + latest end
  if answer then  -- nothing is added
  elseif at > LAST_MOMENT then
    answer = '9999'
  elseif gate and mode == 'each' and lease ~= 'moved' and gate.is_new(id, mark, stamp .. value) and not gate.has_room_for(1, gate.size(stamp .. value)) then
    answer, full = 'full', full + 1
  elseif is_replay == '0' and mark == 'n' then  -- certainly new: written with the others, below
    values[2 * created + 1], values[2 * created + 2] = id, stamp .. value
    created = created + 1
    answer = put(id, at, value)
  elseif redis.call('HSETNX', jobs, id, stamp .. value) == 1 then
    answer = put(id, at, value)
  else
    if not handle then
      if not keyed and lease == second and redis.call('HEXISTS', meta, 'keys') == 1 then
        for k = 2, #scores, 2 do redis.call('HDEL', jobs, scores[k]) end  -- the only writes until now
        return redis.error_reply('KEYED a job of the topic has a key')
      end
-- include taken_id
      handle = handle_taken
    end
    if keys then keys.write_new() end
    answer = handle(id, mark_and_due, value, index)
  end
  answers[index + 2] = answer
end
if created > 0 then redis.call('HSET', jobs, unpack(values)) end
if added > 0 then redis.call('ZADD', due, unpack(scores)) end
if urgent then
-- include priorities
  local lists = {{}, {}, {}}
  for id, job in pairs(urgent) do
    local list = lists[job[2]]
    list[#list + 1], list[#list + 2] = job[1], id
  end
  for priority, list in ipairs(lists) do
    if #list > 0 then index_jobs(priority, list) end
  end
end
count('replaced', replaced)  -- added jobs are not counted here: see stats.lua
count('repeated', repeated)
if gate then
  if full > 0 then gate.note_full(full) end
  gate.keep()
end
local has_turned = false
if keys then
  keys.write_new()
  has_turned = keys.keep()
end
if replaced > 0 or has_turned and keyed_soonest <= now + HORIZON or soonest <= now + HORIZON and tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]) >= soonest then
-- include limits handout_limits watch
  update_watch('', false, handout_limits())  -- else: a job that is not the earliest, or is due late, changes no alarm
end
