local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, stale, keyed, by_key, turns, paces = unpack(KEYS)
local clock, key, place, limit = unpack(ARGV)
--
-- Deletes up to `limit` jobs of a key: those that are "delayed", "ready" or "reserved", or all three ("all"). Dead and finished jobs are
-- not found by their key. Its pause and its rate stay. Answers how many were deleted, and 1 if there
-- are more.
-- include clock refuse_partitioned job run count flags limits handout_limits watch capacity priorities stale order unkept bytes by_key turns take_out

local LEVELS = {'/', '0', '1', '2', '3'}  -- a retry that holds its key, then the priorities
local entries, present = {}, struct.pack('>d', now + 1)

-- Notes entries of the key from there on, up to another one.
local function find(from, to)
  if #entries >= tonumber(limit) then return end
  for _, entry in ipairs(redis.call('ZRANGE', by_key, from, to, 'BYLEX', 'LIMIT', 0, limit - #entries)) do entries[#entries + 1] = entry end
end

local name = key .. '\0'
for _, level in ipairs(LEVELS) do
  if place == 'ready' or place == 'all' then find('[' .. name .. level, '(' .. name .. level .. present) end
  if place == 'delayed' or place == 'all' then find('[' .. name .. level .. present, '(' .. name .. string.char(string.byte(level) + 1)) end
end
if place == 'reserved' or place == 'all' then find('[' .. name .. RESERVED, '(' .. name .. string.char(string.byte(RESERVED) + 1)) end

local gone, ended = 0, 0
for _, entry in ipairs(entries) do
  local is_reserved = string.byte(entry, #name + 1) == string.byte(RESERVED)
  local id = string.sub(entry, #name + (is_reserved and 2 or 10))
  if is_reserved and key_of_run(id) == key or not is_reserved and redis.call('ZSCORE', keyed, id) then
    gone, ended = gone + 1, ended + (take_out(id))
    redis.call('HDEL', runs, id)
    redis.call('HDEL', jobs, id)
  end
  redis.call('ZREM', by_key, entry)  -- its record may be damaged
end
keep_stale()
keep_unkept()
keep_bytes()
count('deleted', gone)
keep_turns()
note_capacity(ended)
if #entries > 0 then update_watch('', false, handout_limits()) end
return {gone, #entries == tonumber(limit) and 1 or 0}
