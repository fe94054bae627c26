-- A job as it is stored: `jobs` holds head + body, written once; `runs` holds its attempts, from the first one on.
-- The head's fixed part is 28 bytes; headers and body follow (tarry/verbs/jobs/records.py reads the same).

local FORMAT = 1
local HEAD = '<BdBII'   -- format, created, flags, ttr ms (0: none given), max attempts (0: none given)
local NONCE_AT, NONCE_TO, HEAD_SIZE = 19, 26, 28
local HAS_MAX_LATENESS = 64   -- a flag: `max_lateness` follows, 8 bytes: µs after the due time
local RAW = 1           -- a flag: the body is plain bytes
local LEVELS = 6        -- two flags: the priority, 0 to 3 (lib/priorities.lua)
local FLAGS_AT = 10     -- the byte of the flags
local RUN = '<IIddB'    -- attempt, limit (0: none), receipt, first failure, length of holder; then holder, fault
local RUN_SIZE = struct.size(RUN)
local NO_LIMIT = 4294967295
local UNCONFIRMED = 4294967295  -- a run's limit: the last attempt, which its consumer has not confirmed yet (confirm.lua)

local function nonce_of(value) return string.sub(value, NONCE_AT, NONCE_TO) end

local function pack_run(attempt, limit, receipt, first, holder, fault)
  return struct.pack(RUN, attempt, limit, receipt, first, #holder) .. holder .. fault
end

-- Parses a run. A damaged one counts as never handed out: nothing may raise here after a write.
local function unpack_run(run)
  if #run < RUN_SIZE then return 0, 0, 0, 0, '', '' end
  local attempt, limit, receipt, first, size, at = struct.unpack(RUN, run)
  return attempt, limit, receipt, first, string.sub(run, at, at + size - 1), string.sub(run, at + size)
end

local function count(what, n)
  if n > 0 then redis.call('HINCRBY', meta, 'n:' .. what, n) end
end
