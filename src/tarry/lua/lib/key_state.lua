-- What the jobs of a key do, and how many of them may go now. Changes nothing; lib/by_key.lua has what is stored. Each count is a few
-- ZLEXCOUNTs, so it costs the same for a key with one job and for one with a million.

local RESERVED, BEHIND = '!', '"'
local HOLDING, LEVELS, BEYOND = '/', {'/', '0', '1', '2', '3'}, '4'  -- a retry that holds its key, then the priorities
local of_keys = redis.call('HMGET', meta, 'key_limits', 'turn', 'key_pauses', 'retry_holds_key')
local places_of_key, of_rate, rate_span = string.match(of_keys[1] or '', '^(%d+) (%d+) (%d+) ')
places_of_key, of_rate, rate_span = tonumber(places_of_key or 0), tonumber(of_rate or 0), tonumber(rate_span or 0)
local may_hold_back = places_of_key > 0 or of_rate > 0 or of_keys[3] or of_keys[4]
local latest_turn = math.max(now, tonumber(of_keys[2] or 0))
if latest_turn > now + 1000000 then latest_turn = now end  -- the clock was set back

-- The number of entries of a key from one part of them to another.
local function entries_of(key, from, to) return redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0' .. from, '(' .. key .. to) end

local function due_of_level(key, level) return entries_of(key, level, '\0' .. level .. struct.pack('>d', now + 1)) end

-- The numbers of a key: how many wait, are due, are reserved, may go now; why the others may not, and until when; when the next one may go.
local function state_of_key(key)
  local waiting, holding, ready = entries_of(key, HOLDING, '\0' .. BEYOND), entries_of(key, HOLDING, '\0' .. '0'), 0
  for _, level in ipairs(waiting > 0 and LEVELS or {}) do ready = ready + due_of_level(key, level) end
  if not of_keys[4] then holding = 0 end  -- they hold it no longer
  local state = {waiting = waiting, ready = ready, reserved = entries_of(key, RESERVED, '\0' .. BEHIND), why = false, ends = false, next = false}
  local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
  local spent, paused = of_rate > 0 and tonumber(ends[1] or 0) or 0, tonumber(ends[2] or 0)
  local places = places_of_key > 0 and math.max(places_of_key - state.reserved, 0) or math.huge
  local first = holding > 0 and due_of_level(key, HOLDING) or 0  -- of those that hold it, none behind one that is not due
  local turn = tonumber(redis.call('ZSCORE', turns, key) or nil)
  state.go = math.min(ready, places, of_rate > 0 and 1 or math.huge, first < holding and first or math.huge)
  state.paused = paused > now and paused or false
  if math.max(spent, paused) > now then state.go = 0 end
  if ready > 0 and state.go == 0 then
    state.why, state.ends = 'rate', spent
    if first < holding then state.why, state.ends = 'retry', turn or false end
    if places == 0 then state.why, state.ends = 'concurrency', false end
    if paused > now then state.why, state.ends = 'pause', paused end
  end
  if waiting > 0 and places > 0 then state.next = state.go > 0 and now or turn or false end
  return state
end

-- How many due jobs with a key may go now, at most `most`. Exact for up to 100 keys that could run; each further one counts as one job.
local function jobs_that_may_go(most)
  local MOST_KEYS = 100
  local could_run = redis.call('ZCOUNT', turns, '-inf', text(latest_turn))
  if places_of_key == 1 or of_rate > 0 then return math.min(could_run, most) end
  local some = redis.call('ZRANGE', turns, '-inf', text(latest_turn), 'BYSCORE', 'LIMIT', 0, MOST_KEYS)
  local go = could_run - #some
  for _, key in ipairs(some) do go = go + state_of_key(key).go end
  return math.min(go, most)
end
