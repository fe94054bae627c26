-- Takes jobs of `due` or of an index of priorities, as many as fit, and hands them out.

local is_full = false  -- whether the next job does not fit

-- The size of the first few tells how many to read next. Answers whether there may be more.
local function take(set, max_jobs)
  local reads = skipped > 0 and set ~= due and STEP or max_jobs  -- after one entry was skipped, there may be many
  local found = redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
  if #found == 0 then return false end
  local may_have_more = #found == 2 * reads
  if set ~= due then found = keep_agreeing(set, found, max_jobs) end
  if #found == 0 then return may_have_more end
  local ids, gone, reserved_args, runs_args = {}, {}, {}, {}
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  local values = redis.call('HMGET', jobs, unpack(ids))
  local known = redis.call('HMGET', runs, unpack(ids))
  local size = bytes
  for i, id in ipairs(ids) do
    size = size + #(values[i] or '')
    is_full = size > ENOUGH and handed + i > 1
    if is_full then break end
    gone[i] = id
  end
  if #gone == 0 then return false end
  redis.call('ZREM', due, unpack(gone))
  if set ~= due then redis.call('ZREM', set, unpack(gone)) end
  for i, id in ipairs(gone) do hand_out(id, tonumber(found[2 * i]), values[i], known[i], reserved_args, runs_args) end
  if #reserved_args > 0 then
    redis.call('ZADD', reserved, unpack(reserved_args))
    redis.call('HSET', runs, unpack(runs_args))
  end
  return may_have_more
end
