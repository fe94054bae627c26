-- Jobs without a key, those of higher priorities first; `urgent` of them have one.
own = {}
for _, index in ipairs(sets) do
  local seen, more = {}, reads + #own / 2
  for i = 1, #own, 2 do seen[own[i]] = true end
  local some = #own < 2 * reads and redis.call('ZRANGE', index, '-inf', newest, 'BYSCORE', 'LIMIT', 0, more, 'WITHSCORES') or {}
  if index ~= due and #some > 0 then some = keep_agreeing(index, some, reads) end
  for i = 1, #some, 2 do
    if not seen[some[i]] then own[#own + 1], own[#own + 2] = some[i], some[i + 1] end
  end
  if index ~= due then urgent = #own / 2 end
end
