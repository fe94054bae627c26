-- What keys give in one pop. Each key is a stream of jobs, of which the next one has a turn. Jobs without a key are between them by their due
-- times; with `fair` they are one key of their own. A key is looked at once for each job that it gives, and no key that has no turn.

local function open_streams()
-- include run flags priorities by_key turns
  used, has_keys = uses_priorities, rules[12]
  read_key_limits(rules[13], rules[14], rules[15])
  local recount, own_turn = rules[17], tonumber(rules[16] or 0)
  local found, entries, owners, changed, is_given = {}, {}, {}, {}, {}
  local MOST_FOUND, LONG_AHEAD = 200, 1000000

  -- Finds the turns of all keys again, some in each pop: their limits have changed, or the clock was set back.
  local function count_again()
    for _ = 1, MOST_FOUND do
      local entry = redis.call('ZRANGE', by_key, recount == '' and '-' or '(' .. recount .. '\1', '+', 'BYLEX', 'LIMIT', 0, 1)[1]
      recount = entry and string.match(entry, '^[^%z]+')
      if not recount then break end
      touch_key(recount)
    end
    redis.call('HDEL', meta, '')  -- the first write is a removal: works with a full memory too
    keep_turns()
    if recount then redis.call('HSET', meta, 'recount', recount) else redis.call('HDEL', meta, 'recount') end
  end

  if ring > now + LONG_AHEAD then ring, own_turn, recount = now, 0, '' end  -- the clock was set back
  is_in_vain = recount and true
  if recount then count_again() end

  local function pace_after_one() return math.ceil(now + key_limits.interval) end

  -- Jobs without a key, those of higher priorities first; and how many of them have one.
  local function read_own(reads)
    local own, urgent = {}, 0
    for _, set in ipairs(sets) do
      local seen, more = {}, reads + #own / 2
      for i = 1, #own, 2 do seen[own[i]] = true end
      local some = #own < 2 * reads and redis.call('ZRANGE', set, '-inf', newest, 'BYSCORE', 'LIMIT', 0, more, 'WITHSCORES') or {}
      if set ~= due and #some > 0 then some = keep_agreeing(set, some, reads) end
      for i = 1, #some, 2 do
        if not seen[some[i]] then own[#own + 1], own[#own + 2] = some[i], some[i + 1] + 0 end
      end
      if set ~= due then urgent = #own / 2 end
    end
    return own, urgent
  end

  -- The job that a key gives now, and the turn of its next one. Answers whether it may give that in this pop, too.
  local function take_one(stream, n)
    local key, most = stream.key, key_limits.concurrency
    if not stream.places then
      stream.places = most == 0 and math.huge or most == 1 and not recount and 1 or most - reserved_of_key(key)
      stream.entry, stream.at = first_of_key(key, '[' .. key .. '\0')
    end
    if stream.entry and stream.at > newest then return false end  -- behind a schedule that has not fired yet
    if not stream.entry or stream.places <= 0 or pace_of_key(key) > now then
      touch_key(key)
      return false
    end
    stream.could_come = (most > 0 or key_limits.n > 0) and stream.turn or 0
    found[2 * n + 1], found[2 * n + 2] = parts_of(key, stream.entry), stream.at
    owners[n + 1], entries[n + 1] = stream, stream.entry
    stream.places, stream.turn = stream.places - 1, nil
    if stream.places <= 0 then return false end
    local entry, at = first_of_key(key, '(' .. stream.entry)
    stream.entry = entry
    stream.at = at
    if not at then return false end
    stream.turn = at
    if key_limits.n > 0 then stream.turn = math.max(at, pace_after_one()) end
    if key_limits.n == 0 and entry and key_limits.is_fair then stream.turn = next_in_ring() end
    return key_limits.n == 0 and entry ~= nil
  end

  -- The next jobs, at most so many: how many, their ids and due times, and the stream of each, or false.
  local function take(reads)
    local n, queue, next_own, first = 0, {}, 1, 1
    found, entries, owners = {}, {}, {}
    local with_turns = redis.call('ZRANGE', turns, '-inf', text(math.max(now, ring)), 'BYSCORE', 'LIMIT', 0, reads, 'WITHSCORES')
    for i = 1, #with_turns, 2 do queue[#queue + 1] = {key = with_turns[i], turn = with_turns[i + 1] + 0} end
    local own, urgent = read_own(reads)
    while n < reads do
      local stream, own_at = queue[first], own[2 * next_own]
      if not stream and not own_at then break end
      local turn = own_at or math.huge
      if own_at and key_limits.is_fair then turn = math.max(own_turn, own_at) end
      if own_at and not key_limits.is_fair and next_own <= urgent then turn = -1 end
      if stream and stream.turn < turn then
        first = first + 1
        changed[stream.key] = stream
        local may_give_more = take_one(stream, n)
        if found[2 * n + 1] then n = n + 1 end
        local place = #queue + 1
        while may_give_more and place > first and queue[place - 1].turn > stream.turn do place = place - 1 end
        if may_give_more then table.insert(queue, place, stream) end
      else
        found[2 * n + 1], found[2 * n + 2], owners[n + 1] = own[2 * next_own - 1], own_at, false
        n, next_own = n + 1, next_own + 1
        if key_limits.is_fair then own_turn = next_in_ring() end
      end
    end
    return n, found, owners
  end

  -- The first `n` no longer wait.
  local function remove(ids, n)
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
      take_from_indexes(plain)
    end
  end

  -- The job of that place is handed out.
  local function reserve(i)
    if owners[i] then is_given[i] = true end
  end

  -- Writes what is reserved, and the turns. Jobs that were taken and not handed out change them.
  local function keep(n)
    local places, spent, given, gone = {}, {}, {}, {}
    for i = 1, n do
      local key = owners[i] and owners[i].key
      if is_given[i] then
        places[#places + 1], places[#places + 2] = 0, key .. '\0' .. RESERVED .. found[2 * i - 1]
        spent[#spent + 1], spent[#spent + 2] = text(pace_after_one()), 'r' .. key
      elseif key then
        touch_key(key)
      end
    end
    if #places > 0 then redis.call('ZADD', by_key, unpack(places)) end
    if #spent > 0 and key_limits.n > 0 then
      local over = redis.call('ZRANGE', paces, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, #spent)
      if #over > 0 then redis.call('ZREM', paces, unpack(over)) end
      redis.call('ZADD', paces, unpack(spent))
    end
    for key, stream in pairs(changed) do
      if stream.turn then given[#given + 1], given[#given + 2] = text(stream.turn), key else gone[#gone + 1] = key end
    end
    if #gone > 0 then redis.call('ZREM', turns, unpack(gone)) end
    if #given > 0 then redis.call('ZADD', turns, unpack(given)) end
    if #touched > 0 then
      is_in_vain = true
      redis.call('HDEL', meta, '')
      keep_turns()
    end
    changed, is_given = {}, {}
  end

  local function close()
    next_turn = tonumber(redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2] or nil)
    if handed + buried == 0 and not is_in_vain then return end
    redis.call('HSET', meta, 'keyed_next', next_turn and text(next_turn) or '', 'turn', text(ring), 'own_turn', text(own_turn))
  end

  return {take = take, remove = remove, reserve = reserve, keep = keep, close = close}
end
