-- Gives jobs' share of the rate back, if nobody has seen them: their consumer had stopped waiting. Only for as long as the rate
-- takes to let so many through: until then a quiet time cannot have made up for it; and not across a change of the rate
-- (`paced`).
local function refund(k, receipt)
  local limited, spent, paced = unpack(redis.call('HMGET', meta, 'limited', 'spent', 'paced'))
  if not limited or not spent then return end
  local n, span = string.match(limited, '^(%d+) (%d+) ')
  n, span, receipt = tonumber(n), tonumber(span), tonumber(receipt)
  if n == 0 or receipt <= tonumber(paced or 0) or now >= receipt + k * span / n then return end
  local since, used = string.match(spent, '^(%d+) (%d+)$')
  used = tonumber(used) - k
  local spans = math.max(math.ceil(-used / n), 0)
  redis.call('HSET', meta, 'spent', text(tonumber(since) - spans * span) .. ' ' .. text(used + spans * n))
end
