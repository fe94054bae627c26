local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, mode = unpack(ARGV)
-- each: id, when, if_exists, head, body = unpack(ARGV, i, i + 4)
--
-- Puts jobs in. `when` is a delay in µs, or "@" and a moment. Item i of n is due i µs after its delay, so that
-- first in is first out; with no delay it is due just before now, so that a pop that follows finds it.
-- mode "all": one job that may not be added refuses all of them, before anything is written; "each": only itself.
-- A job that is there with the same nonce is this very job, added before and its answer lost.
--
-- Answers now, then for each item: its due time, or the state that refused it ("dead 1700000000000000"; the
-- sign before tells: "=" kept, "!" refused), or "9999".
-- include clock job watch

local FIRST, STRIDE, LAST_MOMENT = 3, 5, 253402300799999999
local n = (#ARGV - FIRST + 1) / STRIDE
local NOBODYS = string.rep('\0', 8)

local function due_of(index, when, since)
  if string.sub(when, 1, 1) == '@' then return tonumber(string.sub(when, 2)) end
  local delay = tonumber(when)
  if delay == 0 then return since - n + index end
  return since + delay + index
end

local function nonce_in(head) return string.sub(head, NONCE_AT - 9, NONCE_TO - 9) end  -- as sent: no format, no created

if mode == 'all' then
  for i = FIRST, #ARGV, STRIDE do
    local id, when, if_exists, head = unpack(ARGV, i, i + 3)
    if due_of(n, when, now) > LAST_MOMENT then return redis.error_reply('BEYOND the year 9999') end
    if if_exists == 'error' and nonce_in(head) ~= NOBODYS then
      local old = redis.call('HGET', jobs, id)
      if old and nonce_of(old) ~= nonce_in(head) then
        return 'EXISTS ' .. (i - FIRST) / STRIDE .. ' ' .. (place_of(id) or 'lost')
      end
    end
  end
end

local answers, scores, added, repeated = {now}, {}, 0, 0
local stamp = struct.pack('<Bd', FORMAT, now)
local function put(id, at)
  scores[#scores + 1] = text(at)
  scores[#scores + 1] = id
  added = added + 1
  return at
end

for i = FIRST, #ARGV, STRIDE do
  local id, when, if_exists, head, body = unpack(ARGV, i, i + 4)
  local at = due_of((i - FIRST) / STRIDE, when, now)
  local answer
  if at > LAST_MOMENT then
    answer = '9999'
  elseif redis.call('HSETNX', jobs, id, stamp .. head .. body) == 1 then
    answer = put(id, at)
  else
    local old = redis.call('HGET', jobs, id)
    if nonce_of(old) == nonce_in(head) then
      local _, created = struct.unpack('<Bd', old)
      answer = due_of((i - FIRST) / STRIDE, when, created)
      repeated = repeated + 1
    elseif if_exists == 'replace' then
      redis.call('ZREM', due, id)
      redis.call('ZREM', reserved, id)
      redis.call('ZREM', dead, id)
      redis.call('HDEL', runs, id)
      redis.call('HSET', jobs, id, stamp .. head .. body)
      answer = put(id, at)
    else
      local state, since = place_of(id)
      answer = (if_exists == 'keep' and '=' or '!') .. (state or 'lost') .. ' ' .. text(since or now)
    end
  end
  answers[#answers + 1] = answer
end
if #scores > 0 then redis.call('ZADD', due, unpack(scores)) end
count('added', added)
count('repeated', repeated)
settle('', false)
return answers
