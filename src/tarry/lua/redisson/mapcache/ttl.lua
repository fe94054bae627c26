local entries, timeouts, idles = unpack(KEYS)
local clock = unpack(ARGV)
-- each: key = unpack(ARGV, i, i)
--
-- The time to live of entries, in µs: -2 if the entry does not exist, -1 if it never expires. No access.
-- include clock redisson/entry

local FIRST = 2
local answers = {}
for i = FIRST, #ARGV do
  local idle = live_entry(ARGV[i])
  local ends = idle and expires_at(ARGV[i], idle)
  answers[#answers + 1] = not ends and -2 or ends == NEVER and -1 or ends * 1000 - now
end
return answers
