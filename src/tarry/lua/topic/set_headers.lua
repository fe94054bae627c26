local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3 = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id, receipt, headers, priority = unpack(ARGV, i, i + 3)
--
-- Replaces the headers of reserved jobs, and their priority, unless it is empty. Answers 1 for each that its consumer still has, or 0.
-- include clock job run flags priorities

local FIRST, STRIDE = 2, 4
local answers = {}
for i = FIRST, #ARGV, STRIDE do
  local id, receipt, headers, priority = unpack(ARGV, i, i + 3)
  local run, ends, value = redis.call('HGET', runs, id), redis.call('ZSCORE', reserved, id), redis.call('HGET', jobs, id)
  local _, _, last = unpack_run(run or '')
  local mine = last == tonumber(receipt) and ends and tonumber(ends) > now
  local flags, _, _, _, _, length_at, headers_at, body_at = read_head(value or '')
  if mine and flags and body_at <= #value then
    local fields, body = string.sub(value, HEAD_SIZE + 1, length_at), string.sub(value, body_at + 1)
    if priority ~= '' then
      local level = tonumber(priority)
      flags = flags + 2 * (level - priority_of(flags))
      if level > 0 then note_use(level) end
    end
    if headers_at > length_at then flags = flags - HAS_HEADERS end
    if headers ~= '' then flags, headers = flags + HAS_HEADERS, struct.pack('<H', #headers) .. headers end
    redis.call('HSET', jobs, id, string.sub(value, 1, FLAGS_AT - 1) .. string.char(flags) .. fields .. headers .. body)
  end
  answers[#answers + 1] = mine and 1 or 0
end
return answers
