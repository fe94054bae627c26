local due, jobs = unpack(KEYS)
local clock, id, mark_and_due, value = unpack(ARGV)
--
-- Adds one job without a priority, due after a delay that is beyond the horizon: so it changes no alarm. Only if its id is new.
-- Answers when it is due, or 0: nothing was written, add.lua judges it. The arguments are an item of add.lua.
-- include clock

local at = now + string.sub(mark_and_due, 2)
if at <= now + HORIZON then return 0 end
-- include new_job
return at
