-- A window of scores in one sorted set: all, the past, or the future; empty bounds are open.

local SETS = {due = due, reserved = reserved, dead = dead, retrying = retrying}

local function window(side, from, to)
  local low, high = tonumber(from) or -math.huge, tonumber(to) or math.huge
  if side == 'past' then high = math.min(high, now) end
  if side == 'future' then low = math.max(low, now + 1) end
  return text(low), text(high)
end
