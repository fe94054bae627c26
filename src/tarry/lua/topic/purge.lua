local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, stale, finished, results, keyed, by_key, turns, paces = unpack(KEYS)
local clock, place, side, limit = unpack(ARGV)
--
-- Deletes up to `limit` jobs of one place, or the whole topic and its history at once (place "all"). The last receipt stays, so that receipts
-- go on rising. Waiting consumers are called for the jobs that are left. If none is left, seats and tokens are deleted too:
-- their consumers may be dead. Answers how many were deleted.
-- include clock refuse_partitioned job count flags window limits handout_limits watch capacity priorities order unkept bytes spans run by_key turns

-- The end of this job is no longer kept, nor are those before it in a place.
local function note_gone(set, id)
  local at = id and redis.call('ZSCORE', set, id)
  if not at then return end
  if set == finished then at = finished_by(at) end
  note_unkept(at + 0, id)
end

local gone, ended = 0, 0
if place == 'all' then
  gone, ended = redis.call('HLEN', jobs), redis.call('ZCARD', reserved)
  note_gone(dead, redis.call('ZRANGE', dead, -1, -1)[1])
  note_gone(finished, redis.call('ZRANGE', finished, -1, -1)[1])
  redis.call('UNLINK', due, reserved, dead, jobs, runs, leaving, stale, retrying, attempts, finished, results, priority1, priority2, priority3, keyed, by_key, turns)
  redis.call('HDEL', meta, 'keyed_next')
  if redis.call('HEXISTS', meta, 'bytes') == 1 then redis.call('HSET', meta, 'bytes', '0') end
elseif place == 'finished' then
  local present, kept = text(now), 0
  for _, range in ipairs({{'-inf', present}, {'(' .. present, '+inf'}}) do  -- those whose keep is over are not counted
    local ids = redis.call('ZRANGE', finished, range[1], range[2], 'BYSCORE', 'LIMIT', 0, limit)
    if #ids > 0 then
      note_gone(finished, ids[#ids])
      redis.call('ZREM', finished, unpack(ids))
      redis.call('HDEL', results, unpack(ids))
    end
    kept = #ids
  end
  keep_unkept()
  return kept
else
  local low, high = window(side, '', '')
  local ids = redis.call('ZRANGE', SETS[place], low, high, 'BYSCORE', 'LIMIT', 0, limit)
  if place == 'due' and #ids < tonumber(limit) then
    local some = redis.call('ZRANGE', keyed, low, high, 'BYSCORE', 'LIMIT', 0, limit - #ids)
    for _, id in ipairs(some) do ids[#ids + 1] = id end
  end
  gone = #ids
  if gone > 0 then
    if place == 'dead' then note_gone(dead, ids[gone]) end
    for i = 1, (place == 'due' or place == 'retrying') and counts_bytes() and gone or 0 do note_out(ids[i]) end
    if place ~= 'dead' and uses_keys() then
      for _, id in ipairs(ids) do
        if place == 'reserved' then free_place(key_of_run(id), id) else leave(id) end
      end
      keep_turns()
    end
    redis.call('ZREM', SETS[place], unpack(ids))
    if place == 'due' then redis.call('ZREM', retrying, unpack(ids)) end
    if place ~= 'dead' then take_from_indexes(ids) end
    if place == 'retrying' then redis.call('ZREM', due, unpack(ids)) end
    ended = place == 'reserved' and gone or 0
    redis.call('HDEL', runs, unpack(ids))
    redis.call('HDEL', attempts, unpack(ids))
    redis.call('HDEL', jobs, unpack(ids))
  end
end
keep_unkept()
keep_bytes()
count('deleted', gone)
note_capacity(ended)
update_watch('', false, handout_limits())
return gone
