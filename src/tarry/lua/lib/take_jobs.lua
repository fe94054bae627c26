-- Takes jobs of `set`, which is `due` or an index of priorities, as many as fit, and hands them out. Sets `may_have_more`.
-- The size of the first few tells how many to read next.

local reads = math.min(max_jobs - handed, step)
local found, n
if set == due and reads <= FEW then
  found = redis.call('ZRANGE', due, 0, reads, 'WITHSCORES')  -- one more: the next deadline
  n = #found / 2
  while n > 0 and (n > reads or found[2 * n] + 0 > newest) do n = n - 1 end
  next_due = found[2 * n + 2] or math.huge
  may_have_more = n == reads
else
  if skipped > 0 and set ~= due then reads = STEP end  -- after one entry was skipped, there may be many
  found = redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
  next_due = nil
  may_have_more = #found == 2 * reads
  if set ~= due and #found > 0 then found = keep_agreeing(set, found, math.min(max_jobs - handed, step)) end
  n = #found / 2
end
if n > 0 then
  local ids = {}
  for i = 1, n do ids[i] = found[2 * i - 1] end
  local values = redis.call('HMGET', jobs, unpack(ids))
  local known = redis.call('HMGET', runs, unpack(ids))
  local size = bytes
  for i = 1, n do
    size = size + #(values[i] or '')
    is_full = size > ENOUGH and handed + i > 1
    if is_full then
      n, may_have_more, next_due = i - 1, false, set == due and found[2 * i] or nil
      break
    end
  end
  if n > 0 then
    if set == due then
      redis.call('ZREMRANGEBYRANK', due, 0, n - 1)  -- they are its first
    else
      redis.call('ZREM', due, unpack(ids, 1, n))
      redis.call('ZREM', set, unpack(ids, 1, n))
    end
  end
  for i = 1, scales and n or 0 do scales.note_out(ids[i], found[2 * i], values[i]) end
  local reserved_args, runs_args, k, byte = {}, {}, 0, string.byte
  for i = 1, n do
    local id, at, value, run, is_usual = ids[i], found[2 * i] + 0, values[i], known[i], false
    if may_be_usual and not run and value and #value >= USUAL_SIZE then
      local top, flags = byte(value, FLAGS_AT - 1, FLAGS_AT)
      is_usual = flags < HAS_HEADERS and top < BEYOND_2112 and now - at <= usual_max_lateness
    end
    local time, could_come, answered = usual_ttr, places_since, at
    if limits then could_come = math.max(could_come, limits.time_of(handed + 1)) end
    if is_usual then
      if not usual_run then
        local max_attempts = usual_max_attempts == NO_LIMIT and 0 or usual_max_attempts
        usual_run = struct.pack(RUN, 1, 0, max_attempts, receipt, 0, #holder) .. holder
      end
      run = usual_run
    else
      if not judge then
-- include flags run count bury unfit_jobs unusual_jobs
        judge = judge_job
      end
      run, time, could_come, answered = judge(id, at, value, run, could_come)
    end
    if run then
      if could_come then
        local late_by = now - (at > could_come and at or could_come)
        if late_by < low or late_by >= high then
-- include lateness
        end
        late[bucket] = (late[bucket] or 0) + 1
      end
      local ends = now + time + handed
      if ends < next_end then next_end = ends end
      reserved_args[k + 1], reserved_args[k + 2] = ends, id
      runs_args[k + 1], runs_args[k + 2] = id, run
      k = k + 2
      local slot = FIELDS_PER_JOB * handed
      out[slot + 1], out[slot + 2], out[slot + 3] = id, value, answered
      handed, bytes = handed + 1, bytes + #value
    end
  end
  if k > 0 then
    redis.call('ZADD', reserved, unpack(reserved_args))
    redis.call('HSET', runs, unpack(runs_args))
  end
end
