-- Removes elements from the middle of `order`. LREM compares from one end until it finds the element: the distance is its cost.
-- So the two ends are tried first, then the neighbourhood of each, the one that was right before first, and only then the whole
-- list.
-- Each call answers its cost.

local NEAR = 1000
local PASS = 300  -- the fixed cost of handling one, in elements compared: comparing one takes some 10 ns
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
  local cost = PASS
  for turn = 1, 2 do
    local side = turn == 1 and nearer or 3 - nearer
    local rank = ENDS[side][1]
    cost = cost + NEAR
    if redis.call('LPOS', order, element, 'RANK', rank, 'MAXLEN', NEAR) then
      redis.call('LREM', order, rank, element)
      nearer = side
      return cost
    end
  end
  redis.call('LREM', order, 1, element)
  return cost + 2 * length
end
