-- The first `n` of what was taken by turns no longer wait.
local plain, with_key, gone = {}, {}, {}
for i = 1, n do
  if owners[i] then
    with_key[#with_key + 1], gone[#gone + 1] = ids[i], entries[i]
  else
    plain[#plain + 1] = ids[i]
  end
end
if #with_key > 0 then
  redis.call('ZREM', keyed, unpack(with_key))
  redis.call('ZREM', by_key, unpack(gone))
end
if #plain > 0 then
  redis.call('ZREM', due, unpack(plain))
  for k = 1, #sets - 1 do
    local index = sets[k]
    redis.call('ZREM', index, unpack(plain))
  end
end
