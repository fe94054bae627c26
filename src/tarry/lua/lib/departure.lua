--   source                                        destination
--   due, dead ── depart ──▶ leaving ── arrive ──▶ due, dead
--                              └── end_departure: deleted here, or put back
--
-- A departure: some jobs on their way to another topic. Its name is "SOURCE.NUMBER.NONCE@DESTINATION". NUMBER rises with each
-- departure of a source, for one begins only when the one before has ended. So if a later one has arrived at the destination, an
-- earlier one has ended, and anything that still arrives of it is late: from a second process, or a repeated call.
-- DESTINATION says where it goes: a continued move goes there, and nowhere else.

-- Its source and number; a name that cannot be read is a source of its own.
local function departure_of(departure)
  local source, number = string.match(departure, '^([^.]*)%.(%d+)%.')
  return source or departure, tonumber(number or 0)
end

-- The name of a new departure. Its number rises even if the clock has been set back, and is above `above`, which the destination
-- knows.
local function next_departure(before, nonce, above)
  local place, last = departure_of(before or string.match(nonce, '^[^@]*'))
  return place .. '.' .. text(math.max(now, last + 1, above + 1)) .. '.' .. nonce
end
