-- Keeps the answer for a while, so that a repeated call gets the same one: for scripts that cannot derive it from the data.
-- With a full memory it is kept only if something was written.

local KEPT = 30000

local function remember(answers)
  redis.pcall('SET', memo, cmsgpack.pack(answers), 'PX', KEPT)
  return answers
end

if is_replay == '1' then
  local stored = redis.call('GET', memo)
  if stored then return cmsgpack.unpack(stored) end
end
