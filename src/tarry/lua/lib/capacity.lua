-- After `ended` reservations have ended: notes when places became free at the concurrency limit. Answers whether consumers may have
-- waited for them.

local function note_capacity(ended)
  local concurrency = ended > 0 and redis.call('HGET', meta, 'concurrency')
  if not concurrency or redis.call('ZCARD', reserved) + ended < tonumber(concurrency) then return false end
  redis.call('HSET', meta, 'opened', text(now))
  return true
end
