local tokens = unpack(KEYS)
local clock, id, record = unpack(ARGV)
--
-- Stores a token's record with the moment of its creation, or deletes it (an empty record), and raises the version, by which
-- services notice the change. Answers whether anything changed.
-- include clock

if record == '' then
  if redis.call('HDEL', tokens, id) == 0 then return 0 end
else
  if redis.call('HEXISTS', tokens, id) == 1 then return 0 end  -- this very call, repeated
  redis.call('HSET', tokens, id, text(now) .. ' ' .. record)
end
redis.call('HINCRBY', tokens, 'version', 1)
return 1
