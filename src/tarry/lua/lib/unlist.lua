-- Taking elements out of the middle of `order`. LREM compares from one end on until it has found: the price is the way.
-- So: the ends are looked at first, then both neighbourhoods, and only then all of it. Each answers its price.

local NEAR = 1000
local PASS = 300  -- what handling an element costs beside, in elements passed: an element is passed in some 10 ns

local function unlist(element, length)
  if redis.call('LINDEX', order, 0) == element then
    redis.call('LPOP', order)
    return PASS
  end
  local at = redis.call('LPOS', order, element, 'MAXLEN', NEAR)
  if at then
    redis.call('LREM', order, 1, element)
    return PASS + 2 * at
  end
  at = redis.call('LPOS', order, element, 'RANK', -1, 'MAXLEN', NEAR)
  if at then
    redis.call('LREM', order, -1, element)
    return PASS + NEAR + 2 * (length - at)
  end
  redis.call('LREM', order, 1, element)
  return PASS + 2 * NEAR + length
end
