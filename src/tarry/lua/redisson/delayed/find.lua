local ready, order, timeouts, channel, poison, movers, format = unpack(KEYS)
local clock, from, limit, inverse = unpack(ARGV)
-- each: payload = unpack(ARGV, i, i)
--
-- Reads up to `limit` elements, from `from` places before the last one on, and finds those that carry one of the payloads, or
-- none of them (`inverse`). Takes nothing out. Answers what was learnt, the length of the list, the elements, in the order of offers.
-- include clock redisson/element

local FIRST, STRIDE = 5, 1
local wanted = {}
for i = FIRST, #ARGV, STRIDE do wanted[ARGV[i]] = true end
local answers = {'', check_types()}
local last = -1 - from
for _, element in ipairs(redis.call('LRANGE', order, last - limit + 1, last)) do
  local payload = read_element(element)
  if payload and (wanted[payload] or false) == (inverse == '0') then answers[#answers + 1] = element end
end
answers[1] = store_seen_format()
return answers
