-- Finds the next jobs, at most `reads`: `n`, their ids and due times in `found`, the key of each in `owners`, or false; its entry, and
-- since when it could come. A key has a table only if it gives a second job.

local n, first = 0, 1
local queue = redis.call('ZRANGE', turns, '-inf', text(math.max(now, ring)), 'BYSCORE', 'LIMIT', passed, reads + 1, 'WITHSCORES')
do
  local next_own, urgent, own, again, next_again = 1, 0, nil, {}, 1
  if #sets == 1 then
    own = redis.call('ZRANGE', due, 0, reads, 'WITHSCORES')  -- one more: the next deadline
  else
-- include own_by_priority
  end
  while n < reads and wrongs + #wrong + passed < handed + n + MOST_IN_VAIN do
    local key, turn, second, own_at = queue[2 * first - 1], tonumber(queue[2 * first] or math.huge), again[next_again], tonumber(own[2 * next_own] or nil)
    if second and second.turn < turn then key, turn = second.key, second.turn else second = nil end
    if own_at and own_at > newest then own_at = nil end
    if not key and not own_at then break end
    local of_own = own_at or math.huge
    if own_at and is_fair then of_own = math.max(own_turn, own_at) end
    if own_at and not is_fair and next_own <= urgent then of_own = -1 end
    if not key or turn >= of_own then
      n = n + 1
      found[2 * n - 1], found[2 * n], owners[n] = own[2 * next_own - 1], own_at, false
      next_own = next_own + 1
      if is_fair then
        ring = math.max(now, ring) + 1
        own_turn = ring
      end
    else
      local entry, at, places, looked, k, pace = nil, nil, nil, nil, nil, 0
      if second then
        next_again = next_again + 1
        entry, at, places, looked = second.entry, second.at, second.places, second.looked
      else
        first, k = first + 1, 0
        looked = redis.call('ZRANGE', by_key, '[' .. key .. from, '(' .. key .. '\1', 'BYLEX', 'LIMIT', 0, limit)
        while looked[k + 1] and string.byte(looked[k + 1], #key + 2) == RESERVED_BYTE do k = k + 1 end
        places = concurrency > 0 and concurrency - k or math.huge
        if concurrency > FEW_PLACES then
          places = concurrency - redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0' .. RESERVED, '(' .. key .. '\0"')
        end
        entry = looked[k + 1]
        at = entry and struct.unpack('>d', entry, #key + 3)
        if at and at > now and places > 0 then
          looked.k, looked.is_cut, k = k, #looked == limit, nil
          entry, at, looked = next_of_key(key, looked)
        end
      end
      if (of_rate > 0 or key_rules[3]) and entry then
        local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
        pace = math.max(of_rate > 0 and tonumber(ends[1] or 0) or 0, tonumber(ends[2] or 0))
      end
      if turn > now and places > 0 and not (entry and pace <= now) then
        passed, ahead = passed + 1, math.min(ahead, turn)  -- it is due before the ring ends, and stays
      elseif not entry or places <= 0 or pace > now then
        wrong[#wrong + 1] = key
      elseif at <= newest then  -- else it is behind a schedule that has not fired yet
        n, places = n + 1, places - 1
        found[2 * n - 1], found[2 * n], owners[n], entries[n] = string.sub(entry, #key + 11), at, key, entry
        since[n] = (concurrency > 0 or of_rate > 0) and turn or pace
        entry, at, turn = nil, nil, nil
        if places > 0 then
          entry = k and looked[k + 2]
          at = entry and struct.unpack('>d', entry, #key + 3)
          local is_due = at and at <= now
          if not k or at and (is_due or string.byte(entry, #key + 2) < LAST_LEVEL) then
            if k then looked.k, looked.is_cut = k + (is_due and 2 or 1), #looked == limit end
            if not is_due then entry, at, looked = next_of_key(key, looked) end
          else
            entry = nil
          end
          turn = at
          if at and of_rate > 0 then turn = math.max(at, pace_after_one) end
          if entry and of_rate == 0 then
            if is_fair then
              ring = math.max(now, ring) + 1
              turn = ring
            end
            local place = #again + 1
            while place > next_again and again[place - 1].turn > turn do place = place - 1 end
            table.insert(again, place, {key = key, turn = turn, entry = entry, at = at, places = places, looked = looked})
          end
        end
        changed[key] = turn or false
      end
    end
  end
  next_due = #sets == 1 and tonumber(own[2 * next_own] or math.huge) or nil
end
