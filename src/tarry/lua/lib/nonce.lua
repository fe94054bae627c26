-- The nonce of a stored job: two calls with the same one are the same add.

local NO_NONCE = string.rep('\0', NONCE_SIZE)

local function nonce_of(value)
  local flags = string.byte(value, FLAGS_AT)
  if not flags then return '' end
  return flags % (2 * HAS_NONCE) >= HAS_NONCE and string.sub(value, HEAD_SIZE + 1, HEAD_SIZE + NONCE_SIZE) or NO_NONCE
end
