-- The adds of lib/add_items.lua whose id is taken: kept, refused, replaced or updated, as their mark says. Answers as the script does.

local function handle_taken(id, mark_and_due, value, index)
-- include place migrated_job priorities capacity
  local old = redis.call('HGET', jobs, id)

  local function added_here(id)  -- added by this very script, and not in `due` yet
    local since
    for k = 2, #scores, 2 do
      if scores[k] == id then since = scores[k - 1] end
    end
    return since
  end

  local function withdraw(id)  -- it is not added to `due`: another one comes in its place, or it has got a key
    for k = #scores, 2, -2 do
      if scores[k] == id then
        table.remove(scores, k)
        table.remove(scores, k - 1)
        added = added - 1
      end
    end
  end

  local function state_of()
    local state, since = place_of(id)
    if not state then state, since = leaving_state(id) end
    if state then return state, since end
    since = added_here(id)
    return since and (since > now and 'delayed' or 'ready'), since
  end

  if nonce_of(old) == nonce_of(stamp .. value) then
    repeated = repeated + 1
    local at = due_of(index, mark_and_due, (struct.unpack(MOMENT, old)))
    if not latest then return at end
-- include latest
    return math.min(at, first_of(old) + latest)
  end
  if mark == 'u' then
-- include run heads latest retries update
    local state, since = state_of()
    local was_added = nonce_of(old) == nonce_after(stamp .. value)
    if was_added then repeated = repeated + 1 end
    if state and state ~= 'dead' and not was_added then update(id, old, stamp .. value, since) end
    if state and (state ~= 'dead' or was_added) then return '=' .. state .. ' ' .. text(since) end
  end
  if mark == 'r' or mark == 'u' or latest or mark == 's' and nonce_of(old) == string.sub(mark_and_due, 2, 1 + NONCE_SIZE) then
    local at, record = due_of(index, mark_and_due, now), stamp .. value
    if latest then
-- include run heads latest
      local first = window_begins(id, old)
      at = math.min(at, first + latest)
      if first < now then record = with_field(record, HAS_FIRST, struct.pack('<d', first)) end
    end
    if gate then gate.leave(id, added_here(id), old) end
    if not (keys and keys.leave(id, old)) then redis.call('ZREM', due, id) end
    withdraw(id)
    if redis.call('ZREM', reserved, id) == 1 then
      note_capacity(1)
      if keys then keys.free_place(keys.key_of_run(id), id) end
    end
    local died = redis.call('ZSCORE', dead, id)
    if died then
-- include order unkept
      redis.call('ZREM', dead, id)
      note_unkept(tonumber(died), id)
      keep_unkept()
    end
    if redis.call('HDEL', runs, id) == 1 then  -- it may have failed
      redis.call('ZREM', retrying, id)
      redis.call('HDEL', attempts, id)
    end
    redis.call('HDEL', leaving, id)
    redis.call('HSET', jobs, id, record)
    take_from_indexes({id})
    if urgent then urgent[id] = nil end  -- it may have been added by this very script
    replaced = replaced + 1
    return put(id, at, value)
  end
  local state, since = state_of()
  return (mark == 'k' and '=' or '!') .. (state or 'lost') .. ' ' .. text(since or now)
end
