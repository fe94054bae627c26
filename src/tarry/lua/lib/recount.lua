-- Finds the turns of all keys again, some in each pop: their limits have changed, or the clock was set back. They count as keys whose turn
-- was wrong, so a pop looks at no more keys than any other, and half of those may still be wrong.

local MOST_FOUND, names = MOST_IN_VAIN / 2, {}
-- include turns_again
for _ = 1, MOST_FOUND do
  local entry = redis.call('ZRANGE', by_key, recount == '' and '-' or '(' .. recount .. '\1', '+', 'BYLEX', 'LIMIT', 0, 1)[1]
  recount = entry and string.match(entry, '^[^%z]+')
  if not recount then break end
  names[#names + 1] = recount
end
redis.call('HDEL', meta, '')  -- the first write is a removal: works with a full memory too
if #names > 0 then ring = turns_again(names, ring) end
wrongs = MOST_FOUND
next_turn = recount and now or tonumber(redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2] or nil)
if recount then redis.call('HSET', meta, 'recount', recount) else redis.call('HDEL', meta, 'recount') end
