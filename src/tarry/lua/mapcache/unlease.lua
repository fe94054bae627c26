local hints, lease = unpack(KEYS)
local clock, sharded, token, key = unpack(ARGV)
--
-- The right to load is given back, unless it is another's. Who waits for the key is told. Answers 1 or 0.
-- include clock event

if redis.call('GET', lease) ~= token then return 0 end
redis.call('DEL', lease)
publish(hints, 'key' .. key)
return 1
