-- The attempts of a job, as `runs` has them. `is_changed`: the job was changed since that hand-out (lib/update.lua). It is the sign of the
-- first failure, also of 0: so the usual finish, which compares that number, need not look for it.

local CHANGED = 128  -- in the last byte of that number

local function pack_run(attempt, limit, receipt, first, holder, fault, is_changed)
  local is_unconfirmed = limit == UNCONFIRMED
  return struct.pack(
    RUN, attempt, is_unconfirmed and 1 or 0, is_unconfirmed and 0 or limit, receipt, is_changed and -first or first, #holder)
    .. holder .. fault
end

-- Parses a run. A damaged one counts as never handed out: nothing may raise here after a write.
local function unpack_run(run)
  if #run < RUN_SIZE then return 0, 0, 0, 0, '', '' end
  local attempt, flags, limit, receipt, first, size, at = struct.unpack(RUN, run)
  if flags == 1 then limit = UNCONFIRMED end
  local is_changed = string.byte(run, FIRST_ENDS) >= CHANGED
  return attempt, limit, receipt, math.abs(first), string.sub(run, at, at + size - 1), string.sub(run, at + size), is_changed
end
