local hints, lease = unpack(KEYS)
local clock, sharded, token, key = unpack(ARGV)
--
-- Gives the right to load back, unless another caller has it. Tells callers that wait for the key. Answers 1 or 0.
-- include clock redisson/event

if redis.call('GET', lease) ~= token then return 0 end
redis.call('DEL', lease)
publish(hints, 'key' .. key)
return 1
