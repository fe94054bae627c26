local workers, heard = unpack(KEYS)
local clock, cursor, limit = unpack(ARGV)
--
-- One bounded step through the workers. Changes nothing.
-- Answers now, the next cursor, then of each that lives: its name, when it was heard, since when and what it says.
-- include clock workers

local step = redis.call('HSCAN', workers, cursor, 'COUNT', limit)
local answers = {now, step[1]}
for i = 1, #step[2], 2 do
  local worker, told = step[2][i], step[2][i + 1]
  local at = redis.call('ZSCORE', heard, worker)
  if is_alive(at) then answers[#answers + 1] = {worker, tonumber(at), told} end
end
return answers
