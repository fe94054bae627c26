-- The bytes of the bodies of all jobs that wait, in `due` or with a key, on a topic that limits them: each script that puts jobs there or takes them out keeps them.
--
--   meta   bytes   their sum ("-": it is not known yet); while they are counted again, also "sum moment id": of the jobs up to there
--
-- Bytes are counted in portions, in the order of `due`, while jobs come and go: by adds after the limit was set, and by `check`.

local MOST_READ = 4000000
-- include both_places
local weighed  -- false: the topic does not count them

local function read_weight(stored)
  local total, sum, at, id = string.match(stored or '', '^(%-?%d*) ?(%d*) ?(%-?%d*) ?(.*)$')
  weighed = stored and {total = tonumber(total), sum = tonumber(sum), at = tonumber(at), id = id}
end

local function counts_bytes()
  if weighed == nil then read_weight(redis.call('HGET', meta, 'bytes')) end
  return weighed
end

local function body_size(value)
  local flags, _, _, _, _, _, _, from = read_head(value or '')
  return flags and math.max(#value - from, 0) or 0  -- one that cannot be read has none
end

local function weigh(id, at, value, sign)
  local size = sign * body_size(value)
  if weighed.total then weighed.total = weighed.total + size end
  if weighed.sum and (at < weighed.at or at == weighed.at and not is_after(id, weighed.id)) then weighed.sum = weighed.sum + size end
  weighed.is_changed = true
end

-- A job is put into `due`; `value` is its record, if the script has it.
local function note_in(id, at, value)
  if counts_bytes() then weigh(id, tonumber(at), value or redis.call('HGET', jobs, id), 1) end
end

-- A job will be taken out of `due`, if it is there: its record is as it was, and so is its moment, unless `at` is given.
local function note_out(id, at, value)
  if not counts_bytes() then return end
  at = tonumber(at or redis.call('ZSCORE', due, id) or keyed and redis.call('ZSCORE', keyed, id))
  if at then weigh(id, at, value or redis.call('HGET', jobs, id), -1) end
end

-- Counts up to `limit` more jobs. Whether all are counted.
local function weigh_more(limit)
  weighed = weighed or {}
  if not weighed.sum then weighed.sum, weighed.at, weighed.id = 0, -1, '' end
  local read = 0
  local found = waiting_after(text(weighed.at), weighed.id, limit, '+inf')
  for i = 1, #found, 2 do
    local value = redis.call('HGET', jobs, found[i])
    weighed.sum, weighed.at, weighed.id = weighed.sum + body_size(value), tonumber(found[i + 1]), found[i]
    read = read + #(value or '')
    if read > MOST_READ then break end
  end
  weighed.is_changed = true
  if #found == 2 * limit or read > MOST_READ then return false end
  weighed.total, weighed.sum = weighed.sum, nil
  return true
end

-- After all were noted. With a full memory it fails as the first write of a script: then jobs were only counted.
local function keep_bytes()
  if not weighed or not weighed.is_changed then return end
  local stored = weighed.total and text(weighed.total) or '-'
  if weighed.sum then stored = table.concat({stored, text(weighed.sum), text(weighed.at), weighed.id}, ' ') end
  redis.pcall('HSET', meta, 'bytes', stored)
end
