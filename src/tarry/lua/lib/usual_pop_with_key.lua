-- The usual pop of one job where keys take turns (lib/hand_out_by_turns.lua): the first of the keys has a job that is due, comes for the first
-- time, and has a head with a key and perhaps a nonce. It makes no function. Any other pop is left to the rest of pop.lua: then nothing has
-- changed.
repeat
  local keys = redis.call('ZRANGE', turns, 0, 1, 'WITHSCORES')
  local key, turn = keys[1], tonumber(keys[2] or nil)
  if not key or turn > now + 1000000 then break end
  -- Few entries: nearly always those of a reserved job, of the next one, and of the one that follows (lib/read_key.lua).
  local entries = redis.call('ZRANGE', by_key, '[' .. key .. '\0', '(' .. key .. '\1', 'BYLEX', 'LIMIT', 0, 3)
  local k, at_level = 1, #key + 2
  while entries[k] and string.byte(entries[k], at_level) == 33 do k = k + 1 end
  local at = entries[k] and struct.unpack('>d', entries[k], at_level + 1)
  local late_by, bucket, low, high = now - math.max(at or 0, turn), nil, nil, nil
-- include lateness
  local set = redis.call(
    'HMGET', meta, 'last', 'ruled', 'minute', 'missed', 'key_limits', 'turn', 'key_pauses', 'recount', bucket)
  local rules = set[2] ~= 'keys' and redis.call(
    'HMGET', meta, 'paused', 'ttr', 'max_attempts', 'keep_dead', 'fires', 'limited', 'keep_finished', 'priorities', 'bytes') or {}
  local concurrency, of_rate, span, fair = string.match(set[5] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
  concurrency, of_rate = tonumber(concurrency or 0), tonumber(of_rate or 0)
  local ring, paused, next_schedule = tonumber(set[6] or 0), tonumber(rules[1] or 0), tonumber(rules[5] or math.huge)
  local max_attempts, keep_dead = tonumber(rules[3] or DEFAULT_LIMIT), tonumber(rules[4] or DEFAULT_KEEP)
  if set[4] or set[8] or rules[6] or rules[9] or paused > now or next_schedule <= now or max_attempts < 2
    or math.floor(now / 60000000) > tonumber(set[3] or 0) or turn > now and turn > ring or ring > now + 1000000 then break end
  local since = (concurrency > 0 or of_rate > 0) and turn or 0
  if of_rate > 0 or set[7] then
    local ends = redis.call('ZMSCORE', paces, 'r' .. key, 'p' .. key)
    if of_rate > 0 and tonumber(ends[1] or 0) > now or tonumber(ends[2] or 0) > now then break end
    if since == 0 then since = tonumber(ends[2] or 0) end
  end

  local places = concurrency > 0 and concurrency - k + 1 or math.huge
  if k > 2 and #entries == 3 and (concurrency == 0 or k <= concurrency) then
    if concurrency > 0 then places = concurrency - redis.call('ZLEXCOUNT', by_key, '[' .. key .. '\0!', '(' .. key .. '\0"') end
    entries = redis.call('ZRANGE', by_key, '[' .. key .. '\0"', '(' .. key .. '\1', 'BYLEX', 'LIMIT', 0, 2)
    k = 1
    at = entries[k] and struct.unpack('>d', entries[k], at_level + 1)
  end
  local entry, following = entries[k], entries[k + 1]
  if not at or at > now or places <= 0 then break end
  local id, following_at = string.sub(entry, at_level + 9), nil
  if following and places > 1 then
    following_at = struct.unpack('>d', following, at_level + 1)
    if following_at > now and string.byte(following, at_level) ~= 51 then break end  -- one of a lower priority may be due
  end

  -- One command, for a number that says what is there: 6 each for the tokens, 2 for jobs without a key, 2 for seats, 1 for dead jobs.
  local there = redis.call(
    'EXISTS', wake, wake, wake, wake, wake, wake, relay, relay, relay, relay, relay, relay, due, due, watch, watch, dead)
  local next_end = tonumber(redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or math.huge)
  local died_first = there ~= 12 and keep_dead > 0 and redis.call('ZRANGE', dead, 0, 0, 'WITHSCORES')[2]
  local next_due = tonumber((there < 12 or there > 13) and redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or math.huge)
  local own_turn = next_due <= now and fair == '1' and tonumber(redis.call('HGET', meta, 'own_turn') or nil) or 0
  if next_end <= now or died_first and died_first + 0 <= now - keep_dead
    or next_due <= now and (rules[8] or math.max(next_due, own_turn) <= turn) then break end
  local value = redis.call('HGET', jobs, id)
  local top, flags = string.byte(value or '', FLAGS_AT - 1, FLAGS_AT)
  if not flags or flags < 128 or flags % 128 >= HAS_HEADERS or top >= BEYOND_2112 then break end
  local from = HEAD_SIZE + (flags % 16 >= HAS_NONCE and NONCE_SIZE or 0)
  local further, more, length = string.byte(value, from + 1, from + 3)
  if further ~= 8 or more ~= 0 or length ~= #key or #value < from + 3 + length then break end

-- include next_receipt
  redis.call('ZREM', keyed, id)
  local run = struct.pack(
    RUN .. 'c0Bc0', 1, 0, max_attempts == NO_LIMIT and 0 or max_attempts, receipt, 0.5, #holder, holder, length, key)
  if redis.call('HSETNX', runs, id, run) == 0 then  -- it was handed out before
    redis.call('ZADD', keyed, at, id)
    break
  end
  redis.call('ZREM', by_key, entry)
  redis.call('ZADD', by_key, 0, key .. '\0!' .. id)
  local next_turn = tonumber(keys[4] or nil)
  if of_rate > 0 then
    local pace = math.ceil(now + span / of_rate)
    local spent = {pace, 'r' .. key}
-- include spend_rates
    following_at = following_at and math.max(following_at, pace)
  elseif following_at and following_at <= now and fair == '1' then
    ring = math.max(now, ring) + 1
    following_at = ring
  end
  if following_at then
    redis.call('ZADD', turns, following_at, key)
    next_turn = math.min(following_at, next_turn or following_at)
  else
    redis.call('ZREM', turns, key)
  end
  local time = tonumber(ttr)
  if time == 0 then time = tonumber(rules[2] or DEFAULT_TTR) end
  redis.call('ZADD', reserved, now + time, id)
  local guess, count = bucket, tonumber(set[9] or 0) + 1
  late_by = now - math.max(at, paused, since)
  if late_by < low or late_by >= high then
-- include lateness
  end
  if bucket ~= guess then count = redis.call('HINCRBY', meta, bucket, 1) end
  redis.call('HSET', meta, 'last', receipt, 'turn', ring, 'keyed_next', next_turn or '', bucket, count)
  local first = math.min(next_turn or math.huge, next_due, next_end, now + time)
  local alarm, seat = now + 10000000, 0  -- as lib/watch.lua answers where both tokens are there, and no seats
  if there ~= 12 and there ~= 13 or math.min(first, next_schedule) > now + HORIZON then
-- include watch
    alarm, seat = update_watch(waiter, false, paused, tonumber(rules[5]), 0, false, first, math.huge)
  end
  return {now, receipt, alarm - now, seat, rules[7] and KEEPS or 0, time, {id, value, at}}
until true
