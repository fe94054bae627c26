-- The head of a job: a moment, flags, and what they name, in this order.

local HAS_TTR = 32        -- ms, I
local HAS_ATTEMPTS = 64   -- max attempts, I
local FURTHER = 128       -- 16 more flags, after the nonce:
-- flags, by tools/options.py:
local HAS_MAX_LATENESS_US = 1  -- d
local HAS_KEY = 8  -- text
local HAS_FIRST = 2  -- d
local HAS_STEPS = 4  -- bytes
local FIELDS = '1:8 8:B 2:8 4:I'  -- flag and size of each, in order; B, I: of its length, which is first
local FREE = 16  -- this further flag, and higher ones, are nobody's
-- end of the flags

-- The priority in the flags of a job (lib/priorities.lua).
local function priority_of(flags) return math.floor(flags / 2) % 4 end

-- Whether this version knows all further flags: after others, a newer version may have put anything.
local function is_known(further) return further < FREE end

-- Parses a head: flags (nil: there is none), further flags, TTR in ms and max attempts (0: none given), maximum lateness or nil, the
-- offsets at which the length of the headers, the headers and the body begin, the first event or nil, and the key or nil. The body's is beyond the
-- record's end if it is damaged.
local function read_head(value)
  local top, flags = string.byte(value, FLAGS_AT - 1, FLAGS_AT)
  local at, size = HEAD_SIZE, #value
  if not flags or top >= BEYOND_2112 then return nil, 0, 0, 0, nil, at, at, at end
  if flags <= RAW then return flags, 0, 0, 0, nil, at, at, at end
  local function field(flags, flag, format, bytes)
    if flags % (2 * flag) < flag then return nil end
    at = at + bytes
    return at <= size and struct.unpack(format, value, at - bytes + 1) or 0
  end
  field(flags, HAS_NONCE, '<B', NONCE_SIZE)
  local further = field(flags, FURTHER, '<H', 2) or 0
  local ttr = field(flags, HAS_TTR, '<I', 4) or 0
  local max_attempts = field(flags, HAS_ATTEMPTS, '<I', 4) or 0
  local max_lateness, first, key
  if further > 0 then
    -- fields, by tools/options.py:
    max_lateness = field(further, HAS_MAX_LATENESS_US, '<d', 8)
    local length = field(further, HAS_KEY, '<B', 1) or 0
    at = at + length
    if length > 0 then key = string.sub(value, at - length + 1, at) end
    first = field(further, HAS_FIRST, '<d', 8)
    local length = field(further, HAS_STEPS, '<I', 4) or 0
    at = at + length
    -- end of the fields
  end
  local length_at = at
  local length = field(flags, HAS_HEADERS, '<H', 2) or 0
  return flags, further, ttr, max_attempts, max_lateness, length_at, at, at + length, first, key
end
