-- The attempts of a job, as `runs` has them. `is_changed`: the job was changed since that hand-out (lib/update.lua). It is the sign of the
-- first failure, also of 0. `key`: the job is reserved, and is counted for this key (lib/by_key.lua). Then the first failure has half a µs
-- more, and the key is behind the holder. So the usual finish, which compares that number, need not look for either.

local CHANGED = 128  -- in the last byte of that number

local function pack_run(attempt, limit, receipt, first, holder, fault, is_changed, key)
  local is_unconfirmed = limit == UNCONFIRMED
  if key then
    first = first + 0.5
    fault = string.char(#key) .. key .. fault
  end
  return struct.pack(
    RUN, attempt, is_unconfirmed and 1 or 0, is_unconfirmed and 0 or limit, receipt, is_changed and -first or first, #holder)
    .. holder .. fault
end

-- Parses a run. A damaged one counts as never handed out: nothing may raise here after a write.
local function unpack_run(run)
  if #run < RUN_SIZE then return 0, 0, 0, 0, '', '' end
  local attempt, flags, limit, receipt, first, size, at = struct.unpack(RUN, run)
  if flags == 1 then limit = UNCONFIRMED end
  local is_changed, holder, key = string.byte(run, FIRST_ENDS) >= CHANGED, string.sub(run, at, at + size - 1), nil
  first, at = math.abs(first), at + size
  if first % 1 ~= 0 then
    size = string.byte(run, at) or 0
    first, key, at = math.floor(first), string.sub(run, at + 1, at + size), at + 1 + size
  end
  return attempt, limit, receipt, first, holder, string.sub(run, at), is_changed, key
end
