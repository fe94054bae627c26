local lock, token, channel = unpack(KEYS)
local clock, holder, depth, lease, is_replay = unpack(ARGV)
--
-- Acquires the lock, as RLock.lock does: the hash `lock` has one field, its holder, whose value is how many times it holds the
-- lock. `depth` is set, not incremented: a repeated call changes nothing. `depth` 1 acquires a free lock; a higher one acquires
-- it again, if the caller still holds it. It expires `lease` ms from now; a longer lease stays.
-- Answers {token}; or {0, ms until it is free at the latest (-1: unknown)}; or {-1}: the caller does not hold it any more.
-- include clock

local WEEK = 7 * 24 * 3600 * 1000
local is_free = redis.call('EXISTS', lock) == 0
local held = not is_free and redis.call('HGET', lock, holder)
if not held then
  if depth ~= '1' then return {-1} end
  if not is_free then return {0, redis.call('PTTL', lock)} end
end

local last = redis.call('GET', token)
local fence = held and tonumber(last)
if not fence then  -- rises from holder to holder, also when the key was lost: never below the server's time
  fence = math.max((tonumber(last) or 0) + 1, now)
  if last then
    redis.call('SET', token, text(fence), 'KEEPTTL')  -- where Java counts too (RFencedLock) it stays forever
  else
    redis.call('SET', token, text(fence), 'PX', WEEK)
  end
end
redis.call('HSET', lock, holder, depth)
if is_free or redis.call('PTTL', lock) < tonumber(lease) then redis.call('PEXPIRE', lock, lease) end
return {fence}
