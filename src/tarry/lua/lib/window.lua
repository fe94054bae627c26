-- A window in time over one place: all of it, what is past, or what is still to come; empty bounds are open.

local SETS = {due = due, reserved = reserved, dead = dead}

local function window(side, from, to)
  local low, high = tonumber(from) or -math.huge, tonumber(to) or math.huge
  if side == 'past' then high = math.min(high, now) end
  if side == 'future' then low = math.max(low, now + 1) end
  return text(low), text(high)
end
