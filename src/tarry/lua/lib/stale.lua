-- Receipts of jobs that have gone, which certainly did not settle them: so a finish that was too late, and whose connection broke,
-- is not taken for one that was done. Nothing is kept of a job that only one consumer has had, and that he has finished.
--
--   stale   id → created, the highest of its receipts that are too late; for a minute after the last one

local KEPT, MOST = 60, 1000  -- seconds, jobs
local noted = 0

-- Its receipts up to this one are too late. A receipt runs ahead of the clock only where that was set back: then it says nothing.
local function note_stale(id, highest)
  local head = redis.call('HGET', jobs, id)
  if not head or #head < HEAD_SIZE or highest > now then return end
  local _, created = struct.unpack('<Bd', head)
  if noted == 0 and redis.call('HLEN', stale) >= MOST then redis.call('DEL', stale) end
  if noted < MOST then redis.call('HSET', stale, id, struct.pack('<dd', created, highest)) end
  noted = noted + 1
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
