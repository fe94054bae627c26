-- The clock of the small adds. They do not read the limits for producers (lib/bounds.lua), but hold only in the second for which the
-- caller knows from add.lua that there are none: the lease, in place of an empty clock, or behind a test's. A limit that is set holds after LEASE
-- at the latest, for every caller.
local lease = clock
if #lease > 10 then
  clock, lease = string.match(clock, '^(%d+) ?(%d*)$')
else
  clock = ''
end
-- include clock
if lease ~= second then return 0 end
