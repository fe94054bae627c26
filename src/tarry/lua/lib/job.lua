-- A job as it is stored: `jobs` holds head + body, written once; `runs` holds its attempts, from the first one on.
-- A head is a moment and flags, 8 bytes; then what the flags name, in their order (tarry/verbs/jobs/records.py reads the same).

local FLAGS_AT, HEAD_SIZE = 8, 8
local RAW = 1           -- a flag: the body is plain bytes
local LEVELS = 6        -- two flags: the priority, 0 to 3 (lib/priorities.lua)
local HAS_NONCE, NONCE_SIZE = 8, 6
local NO_NONCE = string.rep('\0', NONCE_SIZE)
local RUN = '<I3BIddB'  -- attempt, flags, limit (0: none), receipt, first failure, length of holder; then holder, fault
local RUN_SIZE = struct.size(RUN)
local NO_LIMIT = 4294967295  -- of a job
local NOTE = '\n\29'        -- in a fault: behind it is a note, such as that nobody knows the job's task
local NOTED = 'noted'       -- in `meta`: hand-outs of such jobs (lib/put_backs.lua)
local UNCONFIRMED = -1  -- in place of a run's limit; stored as a flag: the last attempt, which its consumer has not confirmed yet (confirm.lua)

local function created_of(value) return (struct.unpack(MOMENT, value)) end

local function nonce_of(value)
  local flags = string.byte(value, FLAGS_AT)
  if not flags then return '' end
  return flags % (2 * HAS_NONCE) >= HAS_NONCE and string.sub(value, HEAD_SIZE + 1, HEAD_SIZE + NONCE_SIZE) or NO_NONCE
end

local function pack_run(attempt, limit, receipt, first, holder, fault)
  local is_unconfirmed = limit == UNCONFIRMED
  return struct.pack(RUN, attempt, is_unconfirmed and 1 or 0, is_unconfirmed and 0 or limit, receipt, first, #holder) .. holder .. fault
end

-- Parses a run. A damaged one counts as never handed out: nothing may raise here after a write.
local function unpack_run(run)
  if #run < RUN_SIZE then return 0, 0, 0, 0, '', '' end
  local attempt, flags, limit, receipt, first, size, at = struct.unpack(RUN, run)
  if flags == 1 then limit = UNCONFIRMED end
  return attempt, limit, receipt, first, string.sub(run, at, at + size - 1), string.sub(run, at + size)
end

local function count(what, n)
  if n > 0 then redis.call('HINCRBY', meta, 'n:' .. what, n) end
end
