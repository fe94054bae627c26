-- A job as it is stored: `jobs` holds head + body, written once; `runs` holds its attempts, from the first one on.
-- A head is a moment and flags, 8 bytes; then what the flags name, in their order (tarry/verbs/jobs/records.py reads the same).
-- Only numbers and texts: each function that a script makes costs as much as a small command, used or not (lib/run.lua, lib/flags.lua).

local FLAGS_AT, HEAD_SIZE = 8, 8
local RAW = 1           -- a flag: the body is plain bytes; two more are the priority, 0 to 3 (lib/priorities.lua)
local HAS_NONCE, NONCE_SIZE = 8, 6
local HAS_HEADERS = 16  -- last: their length H, headers
local BEYOND_2112 = 16  -- in the highest byte of the moment: nobody wrote that
local RUN, RUN_SIZE = '<I3BIddB', 25  -- attempt, flags, limit (0: none), receipt, first failure, length of holder; then holder, fault
local RECEIPT_AT, RECEIPT_ENDS, FIRST_ENDS = 9, 16, 24  -- in a run; the first failure is behind the receipt
local NO_LIMIT = 4294967295  -- of a job
local NOTE = '\n\29'        -- in a fault: behind it is a note, such as that nobody knows the job's task
local NOTED = 'noted'       -- in `meta`: hand-outs of such jobs (lib/put_backs.lua)
local UNCONFIRMED = -1  -- in place of a run's limit; stored as a flag: the last attempt, which its consumer has not confirmed yet (confirm.lua)
