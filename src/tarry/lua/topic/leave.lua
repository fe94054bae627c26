local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, waiter = unpack(ARGV)
--
-- Gives back a seat, and a token that was received but cannot be answered by a pop.
-- include clock limits handout_limits watch

update_watch(waiter, false, handout_limits())
return 1
