-- What the flags of a job say.

-- The priority in the flags of a job (lib/priorities.lua).
local function priority_of(flags) return math.floor(flags / 2) % 4 end

-- Whether this version knows all flags: after others, a newer version may have put anything.
local function is_known(flags) return flags % HAS_MAX_LATENESS <= RAW + LEVELS and flags < 2 * HAS_MAX_LATENESS end

-- The offset at which the headers end and the body begins; beyond the record's end if it is damaged.
local function headers_end(value, flags)
  local low, high = string.byte(value, HEAD_SIZE - 1, HEAD_SIZE)
  return HEAD_SIZE + (flags >= HAS_MAX_LATENESS and 8 or 0) + low + 256 * high
end
