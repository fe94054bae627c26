local tokens = unpack(KEYS)
local clock, id, record = unpack(ARGV)
--
-- Keeps a token's record with the moment it was made, or drops it (an empty record), and counts the version on, by which
-- services see that there is something new. Answers whether anything changed.
-- include clock

if record == '' then
  if redis.call('HDEL', tokens, id) == 0 then return 0 end
else
  if redis.call('HEXISTS', tokens, id) == 1 then return 0 end  -- this very call, repeated
  redis.call('HSET', tokens, id, text(now) .. ' ' .. record)
end
redis.call('HINCRBY', tokens, 'version', 1)
return 1
