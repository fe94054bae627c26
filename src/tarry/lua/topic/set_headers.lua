local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, receipt, headers = unpack(ARGV, i, i + 2)
--
-- Replaces the headers of reserved jobs. Answers 1 for each that its consumer still has, or 0.
-- include clock job

local FIRST, STRIDE = 2, 3
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, headers = unpack(ARGV, i, i + 2)
  local run, ends, value = redis.call('HGET', runs, id), redis.call('ZSCORE', reserved, id), redis.call('HGET', jobs, id)
  local _, _, last = unpack_run(run or '')
  local mine = last == tonumber(receipt) and ends and tonumber(ends) > now
  if mine and value and #value >= HEAD_SIZE then
    local _, _, flags = struct.unpack(HEAD, value)
    local from = HEAD_SIZE + (flags >= HAS_MAX_LATENESS and 8 or 0)
    redis.call('HSET', jobs, id, string.sub(value, 1, NONCE_TO) .. struct.pack('<H', #headers)
      .. string.sub(value, HEAD_SIZE + 1, from) .. headers .. string.sub(value, headers_end(value, flags) + 1))
  end
  answers[#answers + 1] = mine and 1 or 0
end
return answers
