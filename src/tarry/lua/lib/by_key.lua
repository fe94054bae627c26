-- Jobs with a key, and what a key may do (docs/decisions/0129-a-key-has-a-turn.md).
--
--   keyed    sorted set   id → when it is due: jobs with a key that wait; they are here instead of in `due`
--   by_key   sorted set   all scores 0, so in the order of the bytes, and counted by ZLEXCOUNT:
--                         KEY NUL "!" id            one that is reserved
--                         KEY NUL level due id      one that waits; the level is 3 for no priority, 0 for the highest; the due time is a double
--                         KEY NUL "/" due id        a retry that holds its key: nothing of the key may go before it
--   turns    sorted set   key → from when one of its jobs may be handed out; not there: none waits, or the key is full
--   paces    sorted set   "r" KEY → until when its rate is spent; "p" KEY → the end of its pause
--   meta     keys         there was a job with a key: from then on these keys are declared in every call (`KEYED` asks for them)
--            key_limits   "concurrency n span fair", 0 for none (configure.lua)
--            retry_holds_key   jobs whose attempt failed, or was lost, hold their key until they run again; without it, also those stop holding it
--            key_pauses   a key was paused
--            keyed_next   the first of `turns`, or empty
--            turn         the last turn that was given to a key, with `fair`: turns rise, also within one µs
--            recount      the last key whose turn was found again, while all are, because their limits have changed
--
-- A script notes the keys that it touched, and then finds their turns from what is stored (lib/turns.lua): nothing is counted up and down.

-- include read_key
local HOLDING = 47  -- "/", a level above the highest
local touched, noted = {}, {}  -- keys, in order; key → {first due of what came, whether something left, whether a place became free}

-- The key of a record that can be read, and its level.
local function key_of(value)
  local flags, further, _, _, _, _, _, _, _, key = read_head(value or '')
  if not key or not is_known(further) then return end
  return key, LAST_LEVEL - priority_of(flags)
end

local function entry_of(key, level, at, id) return key .. '\0' .. string.char(level) .. struct.pack('>d', at) .. id end

local function touch_key(key, at, is_freed)
  local note = noted[key]
  if not note then
    note = {at or math.huge, false, false}
    noted[key], touched[#touched + 1] = note, key
  end
  note[1] = math.min(note[1], at or math.huge)
  note[2], note[3] = note[2] or not at, note[3] or is_freed
end

-- A job begins to wait: if it has a key, puts it here instead of into `due`. `value` is its record, if the script has it; `holds`: it
-- waits for a retry, and holds its key.
local function enter(id, at, value, holds)
  if not value and not uses_keys() then return false end
  local key, level = key_of(value or redis.call('HGET', jobs, id))
  if not key then return false end
  if not uses_keys() then note_keys() end
  at = tonumber(at)
  redis.call('ZADD', keyed, text(at), id)
  redis.call('ZADD', by_key, 0, entry_of(key, holds and HOLDING or level, at, id))
  if holds then touch_key(key) else touch_key(key, at) end  -- the turn of a key that is held may come later
  return true
end

-- The same for several, as moments and ids; `holds` has the ids of those that hold their keys. Answers those without a key.
local function enter_many(scores, holds)
  local plain = {}
  for i = 1, #scores, 2 do
    if not enter(scores[i + 1], scores[i], nil, holds[scores[i + 1]]) then plain[#plain + 1], plain[#plain + 2] = scores[i], scores[i + 1] end
  end
  return plain
end

-- A job no longer waits, if it has a key and waited. Its record is as it was. Answers that, and whether it held its key.
local function leave(id, value)
  local at = uses_keys() and redis.call('ZSCORE', keyed, id)
  if not at then return false end
  redis.call('ZREM', keyed, id)
  local key, level = key_of(value or redis.call('HGET', jobs, id))
  if not key then return true, false end
  touch_key(key)
  if redis.call('ZREM', by_key, entry_of(key, level, tonumber(at), id)) == 1 then return true, false end
  return true, redis.call('ZREM', by_key, entry_of(key, HOLDING, tonumber(at), id)) == 1
end

-- The key for which a reserved job is counted.
local function key_of_run(id) return (select(8, unpack_run(redis.call('HGET', runs, id) or ''))) end

-- A job is reserved.
local function take_place(key, id)
  redis.call('ZADD', by_key, 0, key .. '\0' .. RESERVED .. id)
  touch_key(key)
end

-- A reservation has ended; the key is that of the run. If the key has a turn, it had a place, and its turn stays.
local function free_place(key, id)
  if not key then return end
  redis.call('ZREM', by_key, key .. '\0' .. RESERVED .. id)
  touch_key(key, math.huge, true)
end
