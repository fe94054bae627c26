-- Writes what is reserved by turns, and the turns. Those of keys that had no job, or whose job was not handed out, are found again.
local places, spent, given, gone, soonest = {}, {}, {}, {}, ahead
for i = 1, picked do
  local key = owners[i]
  if key and is_given[i] then
    places[#places + 1], places[#places + 2] = 0, key .. '\0!' .. found[2 * i - 1]
    if of_rate > 0 then spent[#spent + 1], spent[#spent + 2] = text(pace_after_one), 'r' .. key end
  elseif key then
    wrong[#wrong + 1] = key
  end
end
if #places > 0 then redis.call('ZADD', by_key, unpack(places)) end
if #spent > 0 then
-- include spend_rates
end
for key, turn in pairs(changed) do
  if turn then
    given[#given + 1], given[#given + 2] = turn, key
    soonest = math.min(soonest, turn)
  else
    gone[#gone + 1] = key
  end
end
if #gone > 0 then redis.call('ZREM', turns, unpack(gone)) end
if #given > 0 then redis.call('ZADD', turns, unpack(given)) end
if #wrong > 0 then
  redis.call('HDEL', meta, '')  -- if this is the first write, it is a removal: works with a full memory too
  is_in_vain = true
-- include turns_again
  ring = turns_again(wrong, ring)
end
if #wrong == 0 and queue[2 * first] then
  next_turn = math.min(soonest, queue[2 * first])
else
  next_turn = tonumber(redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2] or nil)
end
next_turn = recount and now or next_turn  -- the next pop finds more
has_turned = has_turned or picked > 0 or #wrong > 0
