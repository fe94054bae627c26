-- Jobs with a priority that wait: for each priority an index beside `due`, from which `pop` takes first. All other jobs are in
-- `due` alone.
--
--   priority1 to priority3   sorted sets   id → when it is due, as in `due`
--   meta   priorities        those that were ever used, as "13"; none is read or written before
--
-- The priority itself is in the flags of the job. An entry that differs from `due` means nothing: a repeated `finish`, which
-- does not know these keys, has taken the job. `pop` removes it when its moment has come (lib/skipped_entries.lua).

local INDEXES = {priority1, priority2, priority3}
-- include used

local function note_use(priority)
  if string.find(priorities_used(), priority, 1, true) then return end
  used = used .. priority
  redis.call('HSET', meta, 'priorities', used, 'ruled', 1)
end

-- After jobs with a priority were put into `due`: `scores` has a moment and an id for each.
local function index_jobs(priority, scores)
  redis.call('ZADD', INDEXES[priority], unpack(scores))
  note_use(priority)
end

-- After a job of this topic was put back into `due`.
local function index_again(id, at)
  if priorities_used() == '' then return end
  local head = redis.call('HGET', jobs, id)
  local priority = head and #head >= HEAD_SIZE and priority_of(string.byte(head, FLAGS_AT)) or 0
  if priority > 0 then index_jobs(priority, {at, id}) end
end

-- After jobs were taken out of `due`.
local function take_from_indexes(ids)
  for priority = 1, priorities_used() == '' and 0 or #INDEXES do redis.call('ZREM', INDEXES[priority], unpack(ids)) end
end
