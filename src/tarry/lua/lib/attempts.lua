-- The last failed attempts of a job, as long as it is there. Written only when an attempt fails.
--
--   attempts   id → for each attempt, the last one first:
--              number, begun, ended, length of holder, length of error; then holder, error (the fault's first line)

local MOST_ATTEMPTS, LONGEST_LINE = 10, 200
local ATTEMPT, ATTEMPT_SIZE = '<IddBB', 22

-- The failed attempts of a job, with one more before `known`. `receipt`: it is the moment at which the attempt began, unless the clock
-- was set back.
local function with_attempt(known, attempt, receipt, holder, fault)
  local to = 0
  for _ = 2, MOST_ATTEMPTS do
    if #known < to + ATTEMPT_SIZE then break end
    local holder_size, line_size = string.byte(known, to + ATTEMPT_SIZE - 1, to + ATTEMPT_SIZE)
    to = to + ATTEMPT_SIZE + holder_size + line_size
  end
  local line = string.sub(string.match(fault, '^[^\n]*'), 1, LONGEST_LINE)
  return struct.pack(ATTEMPT, attempt, receipt, now, #holder, #line) .. holder .. line .. string.sub(known, 1, to)
end

local function note_attempt(id, attempt, receipt, holder, fault)
  redis.call('HSET', attempts, id, with_attempt(redis.call('HGET', attempts, id) or '', attempt, receipt, holder, fault))
  count('failed', 1)
end
