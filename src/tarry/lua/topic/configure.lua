local due, reserved, dead, jobs, runs, meta, watch, wake, relay, keyed, by_key, turns, paces = unpack(KEYS)
local clock, place, parts, version = unpack(ARGV)
-- each: field, value = unpack(ARGV, i, i + 1)
--
-- The topic's settings; an empty value removes one. A new rate begins without a saved burst, so that the change
-- itself lets no more through than either rate. Answers all that are set.
--
-- Of `parts` partitions this is number `place`, with its share: a burst and a concurrency limit are divided, and the first
-- partitions get the rest, so that the sum is exact; the limits for producers are rounded up; each has a rate of n in a span `parts` times as long, and they begin one
-- after the other. The values of the whole topic are stored too.
--
-- The first partition counts the changes: its `version` rises above the one given. The others get all of its values with its
-- version, and keep their own if theirs is not lower: so the next call completes a change that was interrupted. Answers the
-- version, too.
-- include clock limits handout_limits watch order unkept spans

local FIRST, BURST = 5, 100000  -- µs: the default burst is what a rate lets through in this time
local DEFAULT_KEEP = 30 * 86400000000
local FIELDS = {
  'ttr', 'max_attempts', 'keep_dead', 'rate', 'burst', 'concurrency', 'max_lateness', 'keep_finished', 'max_pending', 'max_pending_bytes',
  'key_concurrency', 'key_rate', 'fair', 'retry_holds_key',
}
local OF_KEYS = {key_concurrency = true, key_rate = true, fair = true, retry_holds_key = true}
local WHOLE = {
  rate = 'all:rate', burst = 'all:burst', concurrency = 'all:concurrency',
  max_pending = 'all:max_pending', max_pending_bytes = 'all:max_pending_bytes',
}
place, parts, version = tonumber(place), tonumber(parts), tonumber(version)
local own = tonumber(redis.call('HGET', meta, 'ruling') or 0)

local function share(number) return math.floor(number / parts) + (place < number % parts and 1 or 0) end

local function share_of(field, value)
  if string.find(field, '^max_pending') then return text(math.ceil(value / parts)) end
  if field ~= 'rate' then return text(share(tonumber(value))) end
  local n, span = string.match(value, '^(%d+) (%d+)$')
  return n .. ' ' .. text(span * parts)
end

local function set_field(field, value)
  if value == '' then
    redis.call('HDEL', meta, field)
  elseif OF_KEYS[field] then
    redis.call('HSET', meta, field, value)
    redis.call('HSETNX', meta, 'ruled', 'keys')
  else
    redis.call('HSET', meta, field, value, 'ruled', 1)
  end
end

local function read_fields() return redis.call('HMGET', meta, unpack(FIELDS)) end

-- The values of the whole topic.
local function answer(set)
  if parts > 1 then
    for i, field in ipairs(FIELDS) do
      if set[i] and WHOLE[field] then set[i] = redis.call('HGET', meta, WHOLE[field]) end
    end
  end
  set[#FIELDS + 1] = own
  return set
end

if place > 0 and version and version <= own then return answer(read_fields()) end

local before_rate, places, kept, kept_dead, spans, held = unpack(redis.call(
  'HMGET', meta, 'rate', 'concurrency', 'keep_finished', 'keep_dead', 'spans', 'retry_holds_key'))
for i = FIRST, #ARGV, 2 do
  local field, value = unpack(ARGV, i, i + 1)
  if parts > 1 and WHOLE[field] then
    set_field(WHOLE[field], value)
    value = value ~= '' and share_of(field, value) or ''
  end
  set_field(field, value)
end
if parts > 1 and (version or (place == 0 and #ARGV >= FIRST)) then
  own = place > 0 and version or math.max(own, version or 0) + 1
  redis.call('HSET', meta, 'ruling', text(own))
end
local set = read_fields()
if #ARGV < FIRST then return answer(set) end

local keep_dead, keep = set[3], set[8]
if keep ~= kept then
  if not keep or not kept then redis.call('HDEL', meta, 'spans', 'unkept') end
  if keep and kept then
    local found = read_spans(spans)
    found[tonumber(kept)] = now
    write_spans(found)
  elseif keep then
    note_unkept(now + 1, '')  -- what ended until now
  end
end
kept_dead, keep_dead = tonumber(kept_dead or DEFAULT_KEEP), tonumber(keep_dead or DEFAULT_KEEP)
if kept_dead > 0 and (keep_dead == 0 or keep_dead > kept_dead) then note_unkept(now - kept_dead + 1, '') end
keep_unkept()

local rate, burst, concurrency, max_lateness = unpack(set, 4, 7)
if rate or concurrency or max_lateness then
  local n, span = string.match(rate or '0 0', '^(%d+) (%d+)$')
  burst = burst or text(rate and share(math.max(parts, math.floor(n * BURST * parts / span))) or 0)
  local packed = table.concat({n, span, burst, concurrency or '0', max_lateness or '0'}, ' ')
  redis.call('HSET', meta, 'limited', packed)
  if places and tonumber(concurrency or math.huge) > tonumber(places) and redis.call('ZCARD', reserved) >= tonumber(places) then
    redis.call('HSET', meta, 'opened', text(now))
  end
  if rate and rate ~= before_rate then
    local since = now - math.floor((parts - 1 - place) * span / (n * parts))
    redis.call('HSET', meta, 'spent', text(since) .. ' ' .. burst, 'paced', text(now))
  end
else
  redis.call('HDEL', meta, 'limited', 'spent', 'opened', 'paced')
end

local most_jobs, most_bytes = unpack(set, 9, 10)
if most_jobs or most_bytes then
  local since = string.match(redis.call('HGET', meta, 'bounds') or '', '%d+$') or text(now + LEASE)
  redis.call('HSET', meta, 'bounds', table.concat({most_jobs or '0', most_bytes or '0', since}, ' '))
else
  redis.call('HDEL', meta, 'bounds')
end
if not most_bytes then redis.call('HDEL', meta, 'bytes') end
local key_concurrency, key_rate, fair, holds = unpack(set, 11, 14)
local key_limits = (key_concurrency or key_rate or fair) and table.concat({key_concurrency or '0', key_rate or '0 0', fair or '0'}, ' ')
local before = redis.call('HMGET', meta, 'key_limits', 'keys')
if key_limits then redis.call('HSET', meta, 'key_limits', key_limits) else redis.call('HDEL', meta, 'key_limits') end
if before[2] and ((before[1] or '') ~= (key_limits or '') or held ~= holds) then redis.call('HSET', meta, 'recount', '', 'keyed_next', text(now)) end
update_watch('', false, handout_limits())
return answer(set)
