-- How an unusual job is handed out: it was before, its head has fields, or it is too late.
-- Answers its run, its TTR in µs, the moment before which it could not come (nil: its lateness does not count), and what the caller is
-- told besides the job; or nothing, if it is unreadable or too late.

local function judge_job(id, at, value, run, could_come)
  local flags, further, own_ttr, own_max_attempts, own_max_lateness, _, _, size = read_head(value or '')
  if not is_known(further) then return bury_unreadable(id, value, further) end
  if not flags or size > #value then return bury_unreadable(id, value) end
  if bury_late(id, at, run, own_max_lateness or limits and limits.max_lateness) then return end
  local attempt, first, fault, _ = 0, 0, '', nil
  if run then attempt, _, _, first, _, fault = unpack_run(run) end
  attempt = attempt + 1
  local max_attempts = own_max_attempts > 0 and own_max_attempts or usual_max_attempts
  local time = own_ttr > 0 and own_ttr * 1000 or usual_ttr
  local answered = attempt < max_attempts and attempt or -attempt
  local stored_limit = answered < 0 and UNCONFIRMED or max_attempts == NO_LIMIT and 0 or max_attempts
  if string.find(fault, NOTE, 1, true) then  -- it was put back before, and its due time says nothing of lateness (lib/put_backs.lua)
    late[NOTED], could_come = (late[NOTED] or 0) + 1, nil
  end
  return pack_run(attempt, stored_limit, receipt, first, holder, fault, false, counted_for), time, could_come,
    answered == 1 and time == usual_ttr and at or {at, answered, time}
end
