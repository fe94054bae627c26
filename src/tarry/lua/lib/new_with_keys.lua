-- New jobs with a key, which are written together.
local new_scores, new_entries = {}, {}

local function enter_new(id, at, value)
  local key, level = key_of(value)
  if not key then return false end
  local k = #new_scores
  new_scores[k + 1], new_scores[k + 2] = text(at), id
  new_entries[k + 1], new_entries[k + 2] = 0, entry_of(key, level, at, id)
  touch_key(key, at)
  return true
end

local function write_new()
  if #new_scores == 0 then return end
  if not uses_keys() then note_keys() end
  redis.call('ZADD', keyed, unpack(new_scores))
  redis.call('ZADD', by_key, unpack(new_entries))
  new_scores, new_entries = {}, {}
end
