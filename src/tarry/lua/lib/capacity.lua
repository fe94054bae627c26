-- After `ended` reservations have ended: notes when places became free under a full cap. Answers whether consumers may have
-- waited for them.

local function note_capacity(ended)
  local cap = ended > 0 and redis.call('HGET', meta, 'concurrency')
  if not cap or redis.call('ZCARD', reserved) + ended < tonumber(cap) then return false end
  redis.call('HSET', meta, 'opened', text(now))
  return true
end
