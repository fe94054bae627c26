local options = unpack(KEYS)
local clock, size, mode, if_not_set = unpack(ARGV)
--
-- Sets the maximum size (0: none) and the mode, LRU or LFU; or only if none is set. Answers 1; or -1 if the same was set already, 0 if
-- another was.
-- include clock

if if_not_set == '1' then
  local there = redis.call('HMGET', options, 'max-size', 'mode')
  if there[1] then return there[1] == size and (there[2] or 'LRU') == mode and -1 or 0 end
end
redis.call('HSET', options, 'max-size', size, 'mode', mode)
return 1
