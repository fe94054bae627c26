-- Places under a cap: when reservations have ended, so many, while all places were taken, others may have waited for it.

local function note_capacity(ended)
  local cap = ended > 0 and redis.call('HGET', meta, 'concurrency')
  if not cap or redis.call('ZCARD', reserved) + ended < tonumber(cap) then return false end
  redis.call('HSET', meta, 'opened', text(now))
  return true
end
