-- The state of a job, and the moment stored with it.
local function place_of(id)
  local at = redis.call('ZSCORE', due, id)
  if at then return tonumber(at) > now and 'delayed' or 'ready', tonumber(at) end
  at = redis.call('ZSCORE', reserved, id)
  if at then return tonumber(at) > now and 'reserved' or 'ready', tonumber(at) end
  at = redis.call('ZSCORE', dead, id)
  if at then return 'dead', tonumber(at) end
  at = keyed and redis.call('ZSCORE', keyed, id)
  if at then return tonumber(at) > now and 'delayed' or 'ready', tonumber(at) end
end
