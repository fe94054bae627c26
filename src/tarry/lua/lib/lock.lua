-- Whether the key is not a lock: not a hash, or a hash whose fields are not holders (uuid:1, uuid:1:write) and counts. Then it
-- is somebody's data.
local function is_no_lock()
  local kind = redis.call('TYPE', lock).ok
  if kind ~= 'hash' then return kind ~= 'none' end
  for _, field in ipairs(redis.call('HRANDFIELD', lock, 2)) do
    if field ~= 'mode' then
      local count = redis.call('HGET', lock, field)
      return not (string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+') and string.match(count, '^%d+$'))
    end
  end
  return true
end
