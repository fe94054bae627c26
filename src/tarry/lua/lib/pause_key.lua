-- Pauses one key, or ends its pause. Answers the end of the pause, or 0.
local function pause_key()
  local before, ends = tonumber(redis.call('ZSCORE', paces, 'p' .. key) or 0), 0
  if span == '' then
    redis.call('ZREM', paces, 'p' .. key)
  else
    ends = math.min(now + tonumber(span), LAST_MOMENT)
    if keeps_longer == '1' then ends = math.max(ends, before) end
    redis.call('ZADD', paces, text(ends), 'p' .. key)
    redis.call('HSET', meta, 'key_pauses', '1', 'ruled', '1')
  end
  touch_key(key, nil, true)
  keep_turns()
  update_watch('', false, handout_limits())
  return ends
end
