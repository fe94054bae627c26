-- Hands out the `n` jobs of `found`, ids and due times, as many as fit into one reply. `owners`, if any, has the key of each that has one
-- (lib/take_by_turns.lua).

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
    if owners then
-- include remove_taken
    elseif set == due then
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
    local is_ready = false  -- its run is made
    if owners then
-- include usual_with_key
    end
    if is_usual and not is_ready then
      if not usual_run then
        local max_attempts = usual_max_attempts == NO_LIMIT and 0 or usual_max_attempts
        usual_run = struct.pack(RUN, 1, 0, max_attempts, receipt, 0, #holder) .. holder
      end
      run = usual_run
    elseif not is_ready then
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
      if owners then is_given[i] = true end
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
