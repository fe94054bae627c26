-- The window of `latest`: a job is due at most so long after the first event that it stands for. That is the first add of this id that
-- no handler has had yet. The record of a job that was replaced in a window, or updated after a hand-out, has the moment; else it is when
-- the job was created.

-- When the first event of the stored job `value` came, by its head alone.
local function first_of(value)
  local flags, _, _, _, _, _, _, _, first = read_head(value)
  first = flags and (first or struct.unpack(MOMENT, value)) or now
  return first > 0 and first < now and first or now  -- else it is damaged, or the clock was set back
end

-- The same before the job is replaced. After a hand-out a new window begins: a handler has had the earlier events.
local function window_begins(id, value)
  local state = place_of(id) or leaving_state(id)
  local attempt, _, _, _, _, _, is_changed = unpack_run(redis.call('HGET', runs, id) or '')
  if not is_changed and (state == 'dead' or attempt > 0) then return now end
  return first_of(value)
end
