-- A packed element: the same bytes in `order` and in `timeouts` (tarry/verbs/redisson/elements.py reads the same).
-- An element in neither of the two formats is poison: it is set aside with its due time and the reason.

local NEW, OLD = 'Bc0Lc0', 'dLc0'

local lengths = {}  -- the packed form of each length: most elements of a queue are of few sizes

local function has_length(element, place, length)
  local packed = lengths[length]
  if not packed then
    packed = struct.pack('<I8', length)
    lengths[length] = packed
  end
  return string.sub(element, place, place + 7) == packed
end

local seen  -- the format of the last element that was read

-- The payload and the format, or nil and the reason.
local function read_element(element)
  local size = #element
  if size >= 17 and string.byte(element) == 8 and has_length(element, 10, size - 17) then
    seen = NEW
    return string.sub(element, 18), NEW
  end
  if size >= 16 and has_length(element, 9, size - 16) then
    seen = OLD
    return string.sub(element, 17), OLD
  end
  if size < 16 then return nil, size .. ' bytes: an element has sixteen at least' end
  return nil, size .. ' bytes, and no length in it says so: neither Bc0Lc0 nor dLc0'
end

local function add_poison(element, due, reason)
  redis.pcall('HSET', poison, element, (due or '0') .. ' ' .. reason)  -- pcall: the script must go on even if this is refused
end

-- Raises WRONGTYPE before the first write, if a key has another type.
local function check_types()
  redis.call('LLEN', ready)
  redis.call('ZCARD', timeouts)
  return redis.call('LLEN', order)
end

-- The stored format, and how it is known: SEEN in elements, SAID by a client, or SET by a person, whatever the elements are.
-- Nothing if it is not stored.
local SEEN, SAID, SET = 'seen', 'said', 'set'

local function parse_format(text)
  return string.match(text or '', '^(%S+) ?(%S*)')
end

-- Stores the format of the elements read, unless a client or a person has set it. The script must go on even if this is
-- refused. Answers the format if that is new, else ''; it is the first of the script's answers, for the log.
local function store_seen_format()
  if not seen then return '' end
  local stored = redis.pcall('GET', format)
  if type(stored) == 'table' then return '' end
  local known, how = parse_format(stored)
  local ours = known == NEW or known == OLD  -- any other is a newer version's
  if known and not (ours and how == SEEN and known ~= seen) then return '' end
  return redis.pcall('SET', format, seen .. ' ' .. SEEN).ok and seen or ''
end
