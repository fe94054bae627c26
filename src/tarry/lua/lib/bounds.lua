-- The limits for producers: an add of a job that would be new is refused beyond them. All jobs in `due` count, also those that were put back.
--
--   meta   bounds       "n bytes since": the most jobs that wait, and the most bytes of their bodies; 0 for no such limit (configure.lua);
--                       when the last lease ends that was given before (lib/lease.lua)
--          n:not_added  jobs that were refused

local PORTION = 1000
local most_jobs, most_bytes, since = string.match(bounds, '^(%d+) (%d+) (%d+)$')
if not most_jobs then return redis.error_reply('NEWER limits of the topic') end
most_jobs, most_bytes, since = tonumber(most_jobs), tonumber(most_bytes), tonumber(since)
-- include order bytes
local waited = redis.call('ZCARD', due) + (keyed and redis.call('ZCARD', keyed) or 0)  -- with those that this script puts there, without those that it takes out

-- Notes a job as lib/bytes.lua does, and that one more waits; or one less, if it waits, or is `at` such a moment by this very script.
local function enter(id, at, value)
  waited = waited + 1
  note_in(id, at, value)
end

local function leave(id, at, value)
  if at or redis.call('ZSCORE', due, id) or keyed and redis.call('ZSCORE', keyed, id) then waited = waited - 1 end
  note_out(id, at, value)
end

-- Begins or continues to count the bytes: from now on every add notes its own.
if most_bytes > 0 and (since <= now or since > now + LEASE) and not (counts_bytes() and weighed.total) then weigh_more(PORTION) end

-- Whether so many more jobs, with so many bytes, may wait. Before all bytes are counted, those that are count.
local function has_room_for(more, size)
  if more == 0 then return true end
  if most_jobs > 0 and waited + more > most_jobs then return false end
  local known = most_bytes > 0 and counts_bytes() and (weighed.total or weighed.sum) or 0
  return most_bytes == 0 or known + size <= most_bytes
end

-- Whether an add makes a job that does not wait yet: it does not exist, or is dead and comes back.
local function is_new(id, mark, value)
  local old = redis.call('HGET', jobs, id)
  if not old then return true end
  return string.find('rlus', mark, 1, true) and nonce_of(old) ~= nonce_of(value) and redis.call('ZSCORE', dead, id)
end

local function note_full(n) redis.pcall('HINCRBY', meta, 'n:not_added', n) end
