-- Finished jobs that are kept for a while, as history. Written only by `finish`, and only where the topic or the task keeps them.
--
--   finished   sorted set   id → when its keep ends
--   results    hash         id → format, finished, kind of result, sizes of run, failed attempts, result, head + body; then these
--
-- A result or a record of more than 64 KB is left out; with a full memory both are, so that the removal of the job always succeeds.
-- Where no record can be written, the id is kept without one; where not even that can, the job is finished anyway, and counted.
-- Both keys expire with the entry that is kept longest, even if nothing is finished any more.

-- include history_format
local NO_RESULT, JSON_RESULT, NOT_KEPT = 0, 1, 2  -- kinds of results: none given; JSON; the reason why it is not there
local KINDS = {n = NO_RESULT, j = JSON_RESULT, x = NOT_KEPT}
local LONGEST_KEPT, MOST_SWEPT, SPARE = 65536, 2, 16  -- bytes; entries for each one kept, and some more

-- What `finish` gets for a job: µs to keep it (the topic's, if there are none), the kind, the result.
local function read_given(given, usual)
  local span, kind, at = string.match(given, '^(%d*)([njx])()')
  span = tonumber(span ~= '' and span or usual or 0)
  return span or 0, KINDS[kind] or NO_RESULT, kind and string.sub(given, at) or ''
end

-- Returns whether it was kept; not if the memory is full and this is the first write of the script.
local function keep_job(job, is_full)
  local value = redis.call('HGET', jobs, job.id) or ''
  local failed = job.first > 0 and redis.call('HGET', attempts, job.id) or ''
  local kind, result, size = job.kind, job.result, #value
  if #value > LONGEST_KEPT or is_full then value = '' end
  if #result > LONGEST_KEPT then kind, result = NOT_KEPT, 'it has ' .. #result .. ' bytes; at most ' .. LONGEST_KEPT .. ' are kept' end
  if is_full and kind == JSON_RESULT then kind, result = NOT_KEPT, "the server's memory was full" end
  local head = struct.pack(HISTORY, HISTORY_FORMAT, now, kind, #job.run, #failed, #result, size)
  local written = redis.pcall('HSET', results, job.id, head .. job.run .. failed .. result .. value)
  job.written = written  -- 0: over the record of an earlier job
  return type(written) == 'number'
end

local function sweep_history(kept)
  local over = redis.call('ZRANGE', finished, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, MOST_SWEPT * kept + SPARE)
  if #over > 0 then
    redis.call('ZREM', finished, unpack(over))
    redis.pcall('HDEL', results, unpack(over))
  end
end

-- After the jobs were kept: the index, the expiry, and a message to those that wait for results. Returns how many ids could not be kept.
local function index_history(kept)
  local scores, ids = {}, {}
  for i, job in ipairs(kept) do
    if job.written ~= 1 then
      local before = redis.pcall('ZSCORE', finished, job.id)
      is_uneven, job.before = true, type(before) == 'string' and before
    end
    scores[2 * i - 1], scores[2 * i], ids[i] = text(now + job.span), job.id, job.id
  end
  local lost = type(redis.pcall('ZADD', finished, unpack(scores))) ~= 'number'
  if lost then
    redis.pcall('HDEL', results, unpack(ids))
    is_uneven = true
    for _, job in ipairs(kept) do job.written = nil end
  else
    sweep_history(#kept)  -- after it: an id of those that are over may have been kept again
    local last = redis.call('ZRANGE', finished, -1, -1, 'WITHSCORES')
    last_id, last_end = last[1], tonumber(last[2] or now)
    local seconds = text(math.ceil((last_end - now) / 1000000) + 1)
    redis.call('EXPIRE', finished, seconds)
    redis.pcall('EXPIRE', results, seconds)
  end
  redis.pcall('PUBLISH', finished, table.concat(ids, '\n'))
  return lost and #ids or 0
end
