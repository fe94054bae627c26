-- Taking elements out of the middle of `order`. LREM compares from one end on until it has found: the price is the way.
-- So: the ends are looked at first, then both neighbourhoods, the one that was right before first, and only then all of it.
-- Each answers its price.

local NEAR = 1000
local PASS = 300  -- what handling an element costs beside, in elements passed: an element is passed in some 10 ns
local ENDS = {{1, 0}, {-1, -1}}
local nearer = 1

local function remove_element(element, length)
  for turn = 1, 2 do
    local rank, at = unpack(ENDS[turn == 1 and nearer or 3 - nearer])
    if redis.call('LINDEX', order, at) == element then
      redis.call(at == 0 and 'LPOP' or 'RPOP', order)
      return PASS
    end
  end
  local price = PASS
  for turn = 1, 2 do
    local here = turn == 1 and nearer or 3 - nearer
    local rank = ENDS[here][1]
    price = price + NEAR
    if redis.call('LPOS', order, element, 'RANK', rank, 'MAXLEN', NEAR) then
      redis.call('LREM', order, rank, element)
      nearer = here
      return price
    end
  end
  redis.call('LREM', order, 1, element)
  return price + 2 * length
end
