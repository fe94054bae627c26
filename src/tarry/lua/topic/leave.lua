local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, me = unpack(ARGV)
--
-- Hands back a seat, and a token that was taken but cannot be answered by a pop.
-- include clock limits gates watch

settle(me, false, read_gates())
return 1
