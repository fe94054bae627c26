-- Takes jobs of `due` or of an index of priorities, as many as fit, and hands them out.

local is_full = false  -- whether the next job does not fit

-- The usual job: it comes for the first time, its head has no fields but a nonce, and the topic has no limits.
local USUAL_SIZE = HEAD_SIZE + NONCE_SIZE
local usual_run = not limits and usual_max_attempts > 1
  and pack_run(1, usual_max_attempts == NO_LIMIT and 0 or usual_max_attempts, receipt, 0, holder, '')

-- The size of the first few tells how many to read next. Answers whether there may be more.
local function take(set, max_jobs)
  local reads = skipped > 0 and set ~= due and STEP or max_jobs  -- after one entry was skipped, there may be many
  local found = redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
  if #found == 0 then return false end
  local may_have_more = #found == 2 * reads
  if set ~= due then found = keep_agreeing(set, found, max_jobs) end
  local ids, n = {}, #found / 2
  if n == 0 then return may_have_more end
  for i = 1, n do ids[i] = found[2 * i - 1] end
  local values = redis.call('HMGET', jobs, unpack(ids))
  local known = redis.call('HMGET', runs, unpack(ids))
  local size = bytes
  for i = 1, n do
    size = size + #(values[i] or '')
    is_full = size > ENOUGH and handed + i > 1
    if is_full then
      n = i - 1
      break
    end
  end
  if n == 0 then return false end
  if set == due then
    redis.call('ZREMRANGEBYRANK', due, 0, n - 1)  -- they are its first
  else
    redis.call('ZREM', due, unpack(ids, 1, n))
    redis.call('ZREM', set, unpack(ids, 1, n))
  end
  local reserved_args, runs_args, byte = {}, {}, string.byte
  local k = 0  -- the size of both
  for i = 1, n do
    local id, at, value, is_usual = ids[i], found[2 * i] + 0, values[i], false
    if usual_run and not known[i] and value and #value >= USUAL_SIZE then
      local top, flags = byte(value, FLAGS_AT - 1, FLAGS_AT)
      is_usual = flags < HAS_HEADERS and top < BEYOND_2112
    end
    if is_usual then
      local late_by = now - (at > places_since and at or places_since)
      if late_by < low or late_by >= high then change_bucket(late_by) end
      in_bucket = in_bucket + 1
      reserved_args[k + 1], reserved_args[k + 2] = now + usual_ttr + handed, id
      runs_args[k + 1], runs_args[k + 2] = id, usual_run
      k = k + 2
      local slot = FIELDS_PER_JOB * handed
      out[slot + 1], out[slot + 2], out[slot + 3] = id, value, at
      handed, bytes = handed + 1, bytes + #value
    else
      hand_out(id, at, value, known[i], reserved_args, runs_args)
      k = #reserved_args
    end
  end
  if k > 0 then
    redis.call('ZADD', reserved, unpack(reserved_args))
    redis.call('HSET', runs, unpack(runs_args))
  end
  return may_have_more
end
