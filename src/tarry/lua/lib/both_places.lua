-- The next jobs that wait, with and without a key, behind this one, as ids and moments: at most `limit`, up to the score `high`.
local function waiting_after(score, id, limit, high)
  local function of(set)
    local first, last = rank_after(set, score, id), redis.call('ZCOUNT', set, '-inf', high) - 1
    return first <= last and redis.call('ZRANGE', set, first, math.min(first + limit - 1, last), 'WITHSCORES') or {}
  end
  local found, others = of(due), keyed and redis.call('EXISTS', keyed) == 1 and of(keyed) or {}
  if #others == 0 then return found end
  local merged, i, k = {}, 1, 1
  while #merged < 2 * limit and (found[i] or others[k]) do
    local x, y = tonumber(found[i + 1] or math.huge), tonumber(others[k + 1] or math.huge)
    if found[i] and (not others[k] or x < y or x == y and not is_after(found[i], others[k])) then
      merged[#merged + 1], merged[#merged + 2], i = found[i], found[i + 1], i + 2
    else
      merged[#merged + 1], merged[#merged + 2], k = others[k], others[k + 1], k + 2
    end
  end
  return merged
end
