-- The limit of a run: its own, or its handler's (0: none) if that is smaller.
local function capped(limit, cap)
  if cap > 0 and limit ~= UNCONFIRMED and (limit == 0 or cap < limit) then return cap end
  return limit
end
