-- Places in a sorted set: members with the same score are in the order of their bytes.

-- Whether a comes after b: byte by byte (Lua's own order depends on the server's locale).
local function is_after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

local function before(set, score) return redis.call('ZCOUNT', set, '-inf', '(' .. score) end

-- The rank of the first member that comes after this one, whether it is there or not.
local function rank_after(set, score, id)
  local left, right = before(set, score), redis.call('ZCOUNT', set, '-inf', score)
  while left < right do
    local middle = math.floor((left + right) / 2)
    if is_after(redis.call('ZRANGE', set, middle, middle)[1], id) then right = middle else left = middle + 1 end
  end
  return left
end
