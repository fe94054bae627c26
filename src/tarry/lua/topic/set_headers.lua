local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3 = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, receipt, headers, priority = unpack(ARGV, i, i + 3)
--
-- Replaces the headers of reserved jobs, and their priority, unless it is empty. Answers 1 for each that its consumer still has, or 0.
-- include clock job flags priorities

local FIRST, STRIDE = 2, 4
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, headers, priority = unpack(ARGV, i, i + 3)
  local run, ends, value = redis.call('HGET', runs, id), redis.call('ZSCORE', reserved, id), redis.call('HGET', jobs, id)
  local _, _, last = unpack_run(run or '')
  local mine = last == tonumber(receipt) and ends and tonumber(ends) > now
  if mine and value and #value >= HEAD_SIZE then
    local _, _, flags = struct.unpack(HEAD, value)
    local from = HEAD_SIZE + (flags >= HAS_MAX_LATENESS and 8 or 0)
    local head = string.sub(value, 1, NONCE_TO)
    if priority ~= '' then
      local level = tonumber(priority)
      local changed = string.char(flags + 2 * (level - priority_of(flags)))
      head = string.sub(value, 1, FLAGS_AT - 1) .. changed .. string.sub(value, FLAGS_AT + 1, NONCE_TO)
      if level > 0 then note_use(level) end
    end
    redis.call('HSET', jobs, id, head .. struct.pack('<H', #headers)
      .. string.sub(value, HEAD_SIZE + 1, from) .. headers .. string.sub(value, headers_end(value, flags) + 1))
  end
  answers[#answers + 1] = mine and 1 or 0
end
return answers
