-- Ends of jobs that can no longer be read, so that a reader of ends (topic/ends.lua) that has not come to them is told.
--
--   meta   unkept   the moment of the last of them, since when some may be missing, its id; empty behind all ends of earlier moments
--
-- Only a topic that keeps finished jobs has readers; `configure` begins its keeping with such a mark. `note_unkept` collects,
-- `keep_unkept` writes, after a removal: so it works with a full memory too.

local unkept_at, unkept_id, unkept_since = -1, '', math.huge

local function note_unkept(at, id, since)
  if at > unkept_at or at == unkept_at and is_after(id, unkept_id) then unkept_at, unkept_id = at, id end
  unkept_since = math.min(unkept_since, since or at)
end

local function read_unkept(stored)
  local at, since, id = string.match(stored or '', '^(%d+) (%d+) (.*)$')
  return tonumber(at or -1), id or '', tonumber(since or math.huge)
end

local function keep_unkept()
  if unkept_at < 0 then return end
  local set = redis.call('HMGET', meta, 'keep_finished', 'unkept')
  if not set[1] then return end
  local at, id = read_unkept(set[2])
  if unkept_at > at or unkept_at == at and is_after(unkept_id, id) then
    redis.call('HSET', meta, 'unkept', table.concat({text(unkept_at), text(unkept_since), unkept_id}, ' '))
  end
end
