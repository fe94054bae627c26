-- A job that exists is updated: what the new one has is changed, what it lacks stays, and so does the due time. Its steps go with the body
-- that they were of. A consumer that has the job goes on with the old body. When that run ends, by whichever verb, the job is there with the new one, and is handed out again.

-- The nonce of a job that an update has changed: so a repeated update finds whether it changed the job, or added it.
local function nonce_after(update)
  local nonce = nonce_of(update)
  return string.char(255 - string.byte(nonce)) .. string.sub(nonce, 2)
end

-- The stored job `old` with what `new` has. `first`: when the first event came that no handler has had. A job that this version cannot
-- read has what is new alone.
local function updated(old, new, first)
  local flags, _, ttr, max_attempts, _, _, from, to = read_head(new)
  local fields, priority = fields_of(new), priority_of(flags)
  local created, headers, body = string.sub(new, 1, FLAGS_AT - 1), string.sub(new, from + 1, to), string.sub(new, to + 1)
  local old_flags, further, old_ttr, old_max_attempts, _, _, old_from, old_to = read_head(old)
  if old_flags and is_known(further) and old_to <= #old then
    created = string.sub(old, 1, FLAGS_AT - 1)
    for flag, field in pairs(fields_of(old)) do fields[flag] = fields[flag] or field end
    fields[HAS_STEPS] = nil
    if ttr == 0 then ttr = old_ttr end
    if max_attempts == 0 then max_attempts = old_max_attempts end
    if headers == '' then headers = string.sub(old, old_from + 1, old_to) end
    if priority == 0 then priority = priority_of(old_flags) end
  end
  fields[HAS_FIRST] = first ~= struct.unpack(MOMENT, created) and struct.pack('<d', first) or nil  -- else as of any job
  return pack_job(created, flags, priority, nonce_after(new), fields, ttr, max_attempts, headers, body)
end

-- Notes in the run of a job that was handed out before that its holder has not got what is new.
local function note_change(id, run)
  local sign = string.byte(run, FIRST_ENDS)
  redis.call('HSET', runs, id, string.sub(run, 1, FIRST_ENDS - 1) .. string.char(sign % CHANGED + CHANGED) .. string.sub(run, FIRST_ENDS + 1))
end

-- Updates a job that waits or is reserved. `since`: when it is due, if it waits.
local function update(id, old, new, since)
  local run, record = redis.call('HGET', runs, id), updated(old, new, window_begins(id, old))
  local priority = priority_of(string.byte(record, FLAGS_AT))
  if run and #run >= RUN_SIZE then note_change(id, run) end
  if gate and (redis.call('ZSCORE', due, id) or keys and redis.call('ZSCORE', keyed, id) or not place_of(id) and not leaving_state(id)) then  -- it waits, with another body from now on
    gate.leave(id, since, old)
    gate.enter(id, since, record)
  end
  redis.call('HSET', jobs, id, record)
  if redis.call('HDEL', leaving, id) == 1 then
    put(id, since, string.sub(record, FLAGS_AT))
    note_retry(id, since, first_failure(id))
    keep_retrying()
  elseif redis.call('ZSCORE', due, id) or keys and redis.call('ZSCORE', keyed, id) then
    local holds = false  -- a retry goes on holding its key
    if keys then
      holds = select(2, keys.leave(id, old))
      redis.call('ZREM', due, id)
    end
    take_from_indexes({id})
    if not (keys and keys.enter(id, since, record, holds)) then
      if keys then redis.call('ZADD', due, text(since), id) end
      if priority > 0 then index_jobs(priority, {text(since), id}) end
    end
  elseif keys and added_here(id) and keys.enter(id, since, record) then
    withdraw(id)
  elseif priority > 0 and not redis.call('ZSCORE', reserved, id) then  -- added by this very script
    urgent = urgent or {}
    urgent[id] = {since, priority}
  elseif priority > 0 then  -- for when its run ends
    note_use(priority)
  end
end
