-- The window of `latest`: a job is due at most so long after the first event that it stands for. That is the first add of this id that
-- no handler has had yet. The record of a job that was replaced in a window has the moment; else it is when the job was created.

-- When the first event of the stored job `value` came, by its head alone.
local function first_of(value)
  local flags, _, _, _, _, _, _, _, first = read_head(value)
  first = flags and (first or struct.unpack(MOMENT, value)) or now
  return first > 0 and first < now and first or now  -- else it is damaged, or the clock was set back
end

-- The same before the job is replaced. After a hand-out a new window begins: a handler has had the earlier events.
local function window_begins(id, value)
  local state = place_of(id) or leaving_state(id)
  if state == 'dead' or unpack_run(redis.call('HGET', runs, id) or '') > 0 then return now end
  return first_of(value)
end

-- A new job's `value` with the moment of its first event.
local function with_first(value, first)
  local flags, further, _, _, _, length_at = read_head(value)
  local at = HEAD_SIZE + (flags % (2 * HAS_NONCE) < HAS_NONCE and 0 or NONCE_SIZE)
  local fields = string.sub(value, at + (flags < FURTHER and 1 or 3), length_at)
  return string.sub(value, 1, FLAGS_AT - 1) .. string.char(flags % FURTHER + FURTHER) .. string.sub(value, HEAD_SIZE + 1, at)
    .. struct.pack('<H', further + HAS_FIRST) .. fields .. struct.pack('<d', first) .. string.sub(value, length_at + 1)
end
