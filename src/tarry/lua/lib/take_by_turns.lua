-- Finds the next jobs, at most `reads`: `n`, their ids and due times in `found`, the stream of each in `owners`, or false; its entry.

local n, next_own, first, urgent, own = 0, 1, 1, 0, nil
if #sets == 1 then
  own = redis.call('ZRANGE', due, 0, reads, 'WITHSCORES')  -- one more: the next deadline
else
-- include own_by_priority
end
local queue = redis.call('ZRANGE', turns, '-inf', text(math.max(now, ring)), 'BYSCORE', 'LIMIT', passed, reads + 1, 'WITHSCORES')
for i = 1, #queue / 2 do queue[i] = {key = queue[2 * i - 1], turn = queue[2 * i] + 0} end
for i = #queue, #queue / 2 + 1, -1 do queue[i] = nil end
while n < reads and wrongs + #wrong + passed < handed + n + MOST_IN_VAIN do
  local stream, own_at = queue[first], tonumber(own[2 * next_own] or nil)
  if own_at and own_at > newest then own_at = nil end
  if not stream and not own_at then break end
  local turn = own_at or math.huge
  if own_at and is_fair then turn = math.max(own_turn, own_at) end
  if own_at and not is_fair and next_own <= urgent then turn = -1 end
  if not stream or stream.turn >= turn then
    n = n + 1
    found[2 * n - 1], found[2 * n], owners[n] = own[2 * next_own - 1], own_at, false
    next_own = next_own + 1
    if is_fair then
      ring = math.max(now, ring + 1)
      own_turn = ring
    end
  else
    local key = stream.key
    first = first + 1
    if not stream.found then
      local looked = read_key(key, concurrency)
      stream.places = looked.places
      if looked.places > 0 then stream.entry, stream.at, stream.found = next_of_key(key, looked) end
    end
    local entry, pace = stream.entry, 0
    if (of_rate > 0 or key_rules[3]) and entry then
      local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
      pace = math.max(of_rate > 0 and tonumber(ends[1] or 0) or 0, tonumber(ends[2] or 0))
    end
    if stream.turn > now and stream.places > 0 and not (entry and pace <= now) then
      passed, ahead = passed + 1, math.min(ahead, stream.turn)  -- it is due before the ring ends, and stays
    elseif not entry or stream.places <= 0 or pace > now then
      wrong[#wrong + 1] = key
    elseif stream.at <= newest then  -- else it is behind a schedule that has not fired yet
      n = n + 1
      stream.could_come = (concurrency > 0 or of_rate > 0) and stream.turn or 0
      stream.places, stream.turn, changed[key] = stream.places - 1, nil, stream
      found[2 * n - 1], found[2 * n] = string.sub(entry, #key + 11), stream.at
      owners[n], entries[n] = stream, entry
      if stream.places > 0 then
        stream.entry, stream.at, stream.found = next_of_key(key, stream.found)
        stream.turn = stream.at
        if stream.at and of_rate > 0 then stream.turn = math.max(stream.at, pace_after_one) end
        if stream.entry and of_rate == 0 then
          if is_fair then
            ring = math.max(now, ring + 1)
            stream.turn = ring
          end
          local place = #queue + 1
          while place > first and queue[place - 1].turn > stream.turn do place = place - 1 end
          table.insert(queue, place, stream)
        end
      end
    end
  end
end
next_due = #sets == 1 and tonumber(own[2 * next_own] or math.huge) or nil
