local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, finished, results = unpack(KEYS)
local clock, from, job, run, limit = unpack(ARGV)
--
-- Up to `limit` ends of jobs, finished and dead, in the order of their moments, ids and receipts, behind the end of `job` at the moment
-- `from` under the receipt `run`; without `job` from that moment on, without `from` from now on. At most about 1 MB of records. Only
-- what was before this microsecond: more may come in it.
-- Answers now, a moment, an id and a receipt up to which all ends are answered, 1 if there are more, since when and until when ends are
-- not known (0: all are); then for each its moment, its receipt and, as `list` answers them: id, state, moment, head and body, run, its failed
-- attempts. Answers only now on a topic that does not keep finished jobs.
-- include clock refuse_partitioned job run order unkept spans

local ENOUGH, DEFAULT_KEEP, ANY_RUN, HISTORY_HEAD = 1000000, 30 * 86400000000, 9007199254740991, 22
local set = redis.call('HMGET', meta, 'keep_finished', 'keep_dead', 'spans', 'unkept')
if not set[1] then return {now} end
local usual, keep_dead = tonumber(set[1]), tonumber(set[2] or DEFAULT_KEEP)
local at = tonumber(from) or now
run, limit = tonumber(run) or 0, tonumber(limit)
local spans, sources = read_spans(set[3])
sources = sources + (spans[usual] and 1 or 2)

local function precedes(at_a, id_a, run_a, at_b, id_b, run_b)
  if at_a ~= at_b then return at_a < at_b end
  if id_a ~= id_b then return is_after(id_b, id_a) end
  return run_a < run_b
end

-- Up to where all is known: less than now if a source has more than is read.
local bound_at, bound_id, bound_run = now, '', 0
local found = {}

-- The record of a finished job: when it was finished, and its run.
local function read_record(record)
  if #record < HISTORY_HEAD then return 0, '' end
  local size = struct.unpack('<H', record, 11)
  return (struct.unpack('<d', record, 2)), string.sub(record, HISTORY_HEAD + 1, HISTORY_HEAD + size)
end

-- Reads the ends of one index: `dead`, or those of `finished` that are kept for `span`; others stand between them.
local function read_ends(index, span)
  local low, first = at + span, nil
  if index == finished and low <= now then
    first = before(index, text(now + 1))  -- the keep of the others is over
  elseif job == '' then
    first = before(index, text(low))
  else
    first = math.max(rank_after(index, text(low), job) - 1, 0)  -- an end of the same job in the same µs may be another one
  end
  local rows = redis.call('ZRANGE', index, first, first + limit + 1, 'WITHSCORES')
  local passed, bytes, last_at, last_id = 0, 0, nil, nil
  for i = 1, #rows, 2 do
    local id, score = rows[i], tonumber(rows[i + 1])
    local moment = score - span
    if moment >= now then return end
    if passed == limit or bytes > ENOUGH / sources then
      if precedes(last_at, last_id, ANY_RUN, bound_at, bound_id, bound_run) then
        bound_at, bound_id, bound_run = last_at, last_id, ANY_RUN
      end
      return
    end
    local value, its_run, is_ours = nil, nil, true
    if index == finished then
      value = redis.call('HGET', results, id) or ''
      local finished_at
      finished_at, its_run = read_record(value)
      is_ours = finished_at + span == score or #value < HISTORY_HEAD and span == usual
    else
      its_run = redis.call('HGET', runs, id)
    end
    local receipt = select(3, unpack_run(its_run or ''))
    if precedes(at, job, run, moment, id, receipt) then
      passed, last_at, last_id = passed + 1, moment, id
      value = value or redis.call('HGET', jobs, id) or ''
      if is_ours then
        local row = {id, 'finished', score, value, false, false}
        if index == dead then row = {id, 'dead', score, value, its_run, redis.call('HGET', attempts, id)} end
        found[#found + 1] = {moment, id, receipt, row}
      end
      bytes = bytes + #value + #(its_run or '')
    end
  end
end

read_ends(dead, 0)
read_ends(finished, usual)
-- What is older than a span may be over its keep: all of it up to the moment at which the span was no longer used.
local over = now - usual
for span, to in pairs(spans) do
  if span ~= usual then read_ends(finished, span) end
  over = math.max(over, math.min(now - span, to))
end
if keep_dead > 0 then over = math.max(over, now - keep_dead) end

table.sort(found, function(a, b) return precedes(a[1], a[2], a[3], b[1], b[2], b[3]) end)
local rows = {}
for _, one in ipairs(found) do
  if precedes(bound_at, bound_id, bound_run, one[1], one[2], one[3]) then break end
  if #rows == limit then
    bound_at, bound_id, bound_run = found[limit][1], found[limit][2], found[limit][3]
    break
  end
  rows[#rows + 1] = {one[1], one[3], unpack(one[4])}
end

local since, to = 0, 0
local gone, gone_id, gone_since = read_unkept(set[4])
if at > now then
  since, to = now, at  -- the clock was set back: what ends until then is behind the reader
elseif precedes(at, job, run, gone, gone_id, 0) then
  since, to = math.min(at, gone_since), math.max(gone, over + 1)
elseif over >= at then
  since, to = at, over + 1
end
if precedes(bound_at, bound_id, bound_run, at, job, run) then bound_at, bound_id, bound_run = at, job, run end
return {now, bound_at, bound_id, bound_run, (bound_at < now and at <= now) and 1 or 0, since, to, unpack(rows)}
