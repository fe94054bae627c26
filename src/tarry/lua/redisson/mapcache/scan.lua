local entries, timeouts, idles = unpack(KEYS)
local clock, cursor, limit = unpack(ARGV)
--
-- A page of living entries. Answers the next cursor, then key, value, … No access.
-- include clock redisson/entry

local page = redis.call('HSCAN', entries, cursor, 'COUNT', limit)
local answers = {page[1]}
for i = 1, #page[2], 2 do
  local idle, value = read_entry(page[2][i + 1])
  if expires_at(page[2][i], idle) > now_ms then
    answers[#answers + 1] = page[2][i]
    answers[#answers + 1] = value
  end
end
return answers
