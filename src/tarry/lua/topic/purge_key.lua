local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, keyed, by_key, turns, paces = unpack(KEYS)
local clock, key, place, limit = unpack(ARGV)
--
-- Deletes up to `limit` jobs of a key: those that are "delayed", "ready" or "reserved", or all three ("all"). Dead and finished jobs are
-- not found by their key. Its pause and its rate stay. Answers how many were deleted, and 1 if there
-- are more.
-- include clock refuse_partitioned job run count flags limits handout_limits watch capacity order bytes used by_key turns

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

local waiting, held, ids = {}, {}, {}
for _, entry in ipairs(entries) do
  if string.byte(entry, #name + 1) == RESERVED_BYTE then held[#held + 1] = string.sub(entry, #name + 2) else waiting[#waiting + 1] = string.sub(entry, #name + 10) end
end
for i, at in ipairs(#waiting > 0 and redis.call('ZMSCORE', keyed, unpack(waiting)) or {}) do
  if at then ids[#ids + 1] = waiting[i] end
end
for i, run in ipairs(#held > 0 and redis.call('HMGET', runs, unpack(held)) or {}) do
  if select(8, unpack_run(run or '')) == key then ids[#ids + 1] = held[i] end
end
local ended = 0
if #entries > 0 then
  redis.call('ZREM', by_key, unpack(entries))
  touch_key(key, nil, true)
end
if #ids > 0 then
  for i = 1, counts_bytes() and #ids or 0 do note_out(ids[i]) end
  ended = redis.call('ZREM', reserved, unpack(ids))
  redis.call('ZREM', keyed, unpack(ids))
  redis.call('ZREM', retrying, unpack(ids))
  redis.call('HDEL', runs, unpack(ids))
  redis.call('HDEL', attempts, unpack(ids))
  redis.call('HDEL', jobs, unpack(ids))
end
keep_bytes()
count('deleted', #ids)
keep_turns()
note_capacity(ended)
if #entries > 0 then update_watch('', false, handout_limits()) end
return {#ids, #entries == tonumber(limit) and 1 or 0}
