-- The limit of a run: its own, or its handler's (0: none) if that is smaller.
local function capped(limit, max_attempts)
  if max_attempts > 0 and limit ~= UNCONFIRMED and (limit == 0 or max_attempts < limit) then return max_attempts end
  return limit
end
