-- The attempts of a job, as `runs` has them.

local function pack_run(attempt, limit, receipt, first, holder, fault)
  local is_unconfirmed = limit == UNCONFIRMED
  return struct.pack(RUN, attempt, is_unconfirmed and 1 or 0, is_unconfirmed and 0 or limit, receipt, first, #holder) .. holder .. fault
end

-- Parses a run. A damaged one counts as never handed out: nothing may raise here after a write.
local function unpack_run(run)
  if #run < RUN_SIZE then return 0, 0, 0, 0, '', '' end
  local attempt, flags, limit, receipt, first, size, at = struct.unpack(RUN, run)
  if flags == 1 then limit = UNCONFIRMED end
  return attempt, limit, receipt, first, string.sub(run, at, at + size - 1), string.sub(run, at + size)
end
