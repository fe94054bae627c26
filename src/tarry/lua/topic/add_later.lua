local due, jobs = unpack(KEYS)
local clock, id, mark_and_due, value = unpack(ARGV)
--
-- Adds one job without a priority, due after a delay that is beyond the horizon: so it changes no alarm. Only if its id is new.
-- Answers when it is due, or 0: nothing was written, add.lua judges it. The arguments are an item of add.lua.
-- In place of an empty clock it gets the lease: the second of the server's clock for which the caller knows from `topic/add` that the topic has
-- no limits for producers. In any other second, and without one, nothing is written. A test's clock has it behind a blank.
-- include lease

local at = now + string.sub(mark_and_due, 2)
if at <= now + HORIZON then return 0 end
-- include new_job
return at
