-- Receipts of deleted and finished jobs that certainly did not finish them: so a finish that came too late, and whose
-- connection broke, does not count as done when it is repeated. Nothing is stored for a job that only one consumer had and
-- finished.
--
--   stale   id → created, the highest of its stale receipts; for a minute after the last one

local KEPT, MOST = 60, 1000  -- seconds, jobs
local noted = 0

-- Notes that the receipts of a job up to `highest` are stale. A receipt ahead of the clock says nothing: the clock was set
-- back.
local function note_stale(id, highest)
  local head = redis.call('HGET', jobs, id)
  if not head or #head < HEAD_SIZE or highest > now then return end
  if noted == 0 and redis.call('HLEN', stale) >= MOST then redis.call('DEL', stale) end
  if noted < MOST then redis.call('HSET', stale, id, struct.pack('<dd', struct.unpack(MOMENT, head), highest)) end
  noted = noted + 1
end

-- Whether a receipt is older than the job that has the id now.
local function is_of_another(id, receipt)
  local head = redis.call('HGET', jobs, id)
  return head and #head >= HEAD_SIZE and receipt < struct.unpack(MOMENT, head)
end

local function keep_stale()
  if noted > 0 then redis.call('EXPIRE', stale, KEPT) end
end

local function is_stale(id, receipt)
  local known = redis.call('HGET', stale, id)
  if not known or #known ~= 16 then return false end
  local created, highest = struct.unpack('<dd', known)
  return created < receipt and receipt <= highest
end
