-- Takes a job out of the place where it is. Answers whether it was reserved (1 or 0), and the receipt of its last hand-out, if any.

local function take_out(id)
  note_out(id)
  if not leave(id) then redis.call('ZREM', due, id) end
  take_from_indexes({id})
  local ended = redis.call('ZREM', reserved, id)
  local died = redis.call('ZSCORE', dead, id)
  if died then
    redis.call('ZREM', dead, id)
    note_unkept(tonumber(died), id)
  end
  redis.call('HDEL', leaving, id)
  local run = redis.call('HGET', runs, id)
  if not run then return ended end
  local _, _, receipt, _, _, _, _, key = unpack_run(run)
  free_place(key, id)
  note_stale(id, receipt)
  redis.call('ZREM', retrying, id)
  redis.call('HDEL', attempts, id)
  return ended, receipt
end
