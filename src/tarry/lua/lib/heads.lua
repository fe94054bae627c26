-- Records that get another head from a script; lib/flags.lua reads them.

-- What the further flags of a record name: flag → its field, as it is stored.
local function fields_of(value)
  local flags, further = read_head(value)
  local at, found = HEAD_SIZE + 2, {}
  if flags % (2 * HAS_NONCE) >= HAS_NONCE then at = at + NONCE_SIZE end
  if flags % (2 * HAS_TTR) >= HAS_TTR then at = at + 4 end
  if flags % (2 * HAS_ATTEMPTS) >= HAS_ATTEMPTS then at = at + 4 end
  for flag, size in string.gmatch(FIELDS, '(%d+):(%w+)') do
    if further % (2 * flag) >= tonumber(flag) then
      if not tonumber(size) then size = struct.size(size) + struct.unpack('<' .. size, value, at + 1) end
      found[tonumber(flag)], at = string.sub(value, at + 1, at + size), at + size
    end
  end
  return found
end

-- `created`: seven bytes. The flags are those of the body; `ttr` and `max_attempts` are 0 if there are none, and the nonce and the headers
-- empty.
local function pack_job(created, flags, priority, nonce, fields, ttr, max_attempts, headers, body)
  local further, text = 0, ''
  for flag in string.gmatch(FIELDS, '(%d+):') do
    local field = fields[tonumber(flag)]
    if field then further, text = further + flag, text .. field end
  end
  flags = flags % 2 + 2 * priority + (nonce ~= '' and HAS_NONCE or 0) + (headers ~= '' and HAS_HEADERS or 0)
    + (ttr > 0 and HAS_TTR or 0) + (max_attempts > 0 and HAS_ATTEMPTS or 0) + (further > 0 and FURTHER or 0)
  return created .. string.char(flags) .. nonce .. (further > 0 and struct.pack('<H', further) or '')
    .. (ttr > 0 and struct.pack('<I', ttr) or '') .. (max_attempts > 0 and struct.pack('<I', max_attempts) or '')
    .. text .. (headers ~= '' and struct.pack('<H', #headers) .. headers or '') .. body
end

-- The record `value` with this further field.
local function with_field(value, flag, field)
  local flags, _, ttr, max_attempts, _, _, from, to = read_head(value)
  local nonce, fields = nonce_of(value), fields_of(value)
  fields[flag] = field
  if nonce == NO_NONCE then nonce = '' end
  local headers, body = string.sub(value, from + 1, to), string.sub(value, to + 1)
  return pack_job(string.sub(value, 1, FLAGS_AT - 1), flags, priority_of(flags), nonce, fields, ttr, max_attempts, headers, body)
end
