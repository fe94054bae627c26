local workers, heard, asked = unpack(KEYS)
local clock, cursor, limit = unpack(ARGV)
--
-- One bounded step through the workers. Changes nothing.
-- Answers now, the next cursor, then for each live worker: its name, when it last reported, since when it is known and its
-- report, the mode that it is asked to take, or nothing.
-- include clock workers

local step = redis.call('HSCAN', workers, cursor, 'COUNT', limit)
local answers = {now, step[1]}
local any_asked = redis.call('EXISTS', asked) == 1
for i = 1, #step[2], 2 do
  local worker, told = step[2][i], step[2][i + 1]
  local at = redis.call('ZSCORE', heard, worker)
  if is_alive(at) then answers[#answers + 1] = {worker, tonumber(at), told, any_asked and redis.call('HGET', asked, worker)} end
end
return answers
