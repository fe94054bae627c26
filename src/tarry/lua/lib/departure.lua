-- Departures of a topic, for another one. Each has a word of its own, "PLACE.NUMBER.WORD": the place that it left, and a number
-- that rises from one to the next, for one begins only when the one before has ended. So where a later one of the same place
-- has arrived, an earlier one has ended, and what still comes of it is late: a second process, or a call whose answer was lost.
-- WORD ends with "@" and where it goes: whoever begins again goes there, and nowhere else. (0.1.0 does not say.)

local function departure_of(departure)
  local place, number = string.match(departure, '^([^.]*)%.(%d+)%.')
  return place or departure, tonumber(number or 0)  -- older versions' departures are words without numbers
end

-- A new one. A clock that has gone back makes no number twice, and `above` is one that is known where it goes.
local function next_departure(before, nonce, above)
  local place, last = departure_of(before or string.match(nonce, '^[^@]*'))
  return place .. '.' .. text(math.max(now, last + 1, above + 1)) .. '.' .. nonce
end
