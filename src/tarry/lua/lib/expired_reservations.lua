-- Reservations whose TTR is over: the jobs go back to `due` with the moment it ran out, or to `dead` after the last attempt.
-- A last attempt that was never confirmed does not count: its answer was lost. A job that was changed since (lib/update.lua) does not die
-- of it: its attempts count from zero. One without a run was updated, and its run has ended: nothing has timed out.
-- Bounded: the caller pops again if some came.

local MOST_READ = 4000000

-- The first of them, as many as fit into one reply: their priorities are read from their records.
local function those_to_read(over)
  local kept, size = {}, 0
  for i = 1, #over, 2 do
    size = size + redis.call('HSTRLEN', jobs, over[i])
    if size > MOST_READ and i > 1 then break end
    kept[i], kept[i + 1] = over[i], over[i + 1]
  end
  return kept
end

local function put_back(over)
  if priorities_used() ~= '' or uses_keys() then over = those_to_read(over) end
  local ids, ready, notes, timed_out, died = {}, {}, {}, 0, 0
  local holds = uses_keys() and redis.call('HGET', meta, 'retry_holds_key') and {}
  for i = 1, #over, 2 do ids[#ids + 1] = over[i] end
  redis.call('ZREM', reserved, unpack(ids))
  local known = redis.call('HMGET', runs, unpack(ids))
  for i, id in ipairs(ids) do
    local run = known[i]
    local attempt, limit, receipt, first, holder, fault, is_changed, key = unpack_run(run or '')
    if key then free_place(key, id) end
    if run then timed_out = timed_out + 1 end
    if holds then holds[id] = run and true end
    if not run then
      ready[#ready + 1], ready[#ready + 2] = over[2 * i], id
    elseif limit == UNCONFIRMED then
      ready[#ready + 1], ready[#ready + 2] = over[2 * i], id
      notes[#notes + 1] = id
      notes[#notes + 1] = pack_run(attempt - 1, 0, receipt, first, holder, fault, is_changed)
    elseif limit > 0 and attempt >= limit and not is_changed then
      note_attempt(id, attempt, receipt, holder, TIMED_OUT)
      bury_run(id, attempt, limit, receipt, first > 0 and first or now, holder, EXHAUSTED .. TIMED_OUT)
      died = died + 1
    else
      first = first > 0 and first or now
      ready[#ready + 1], ready[#ready + 2] = over[2 * i], id
      notes[#notes + 1] = id
      notes[#notes + 1] = pack_run(limit > 0 and attempt >= limit and 0 or attempt, limit, receipt, first, holder, TIMED_OUT, is_changed)
      note_attempt(id, attempt, receipt, holder, TIMED_OUT)
    end
  end
  if #ready > 0 then
    local plain = uses_keys() and enter_many(ready, holds or {}) or ready
    if #plain > 0 then redis.call('ZADD', due, unpack(plain)) end
    if #notes > 0 then redis.call('HSET', runs, unpack(notes)) end
    for i = 1, #plain, 2 do index_again(plain[i + 1], plain[i]) end
    for i = 1, #ready, 2 do
      if scales then scales.note_in(ready[i + 1], ready[i]) end
    end
  end
  count('timed_out', timed_out)
  count('died', died)
  if uses_keys() then keep_turns() end
  return #ids
end
