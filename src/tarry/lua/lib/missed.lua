-- The holders whose jobs observers want to release: `missed` of `meta`. A holder that pops, finishes or renews afterwards lives.
--
--   holder → when its mark was set, which absence it is about, the topic's last receipt then, whether it has shown that it lives

local MARK_KEPT = 60000000

local function read_missed(stored)
  local is_read, found = pcall(cmsgpack.unpack, stored or '')
  return is_read and type(found) == 'table' and found or {}
end

-- Writes the marks that are not too old.
local function write_missed(marks)
  local left = false
  for holder, mark in pairs(marks) do
    if type(mark) ~= 'table' or math.abs(now - (tonumber(mark[1]) or 0)) > MARK_KEPT then marks[holder] = nil else left = true end
  end
  redis.call('HDEL', meta, 'missed')
  if left then redis.call('HSET', meta, 'missed', cmsgpack.pack(marks)) end
end

-- This holder lives: its mark says so from now on. Writes only if there is a mark to change, or an old one.
local function note_alive(stored, holder)
  local marks, changed = read_missed(stored), false
  for name, mark in pairs(marks) do
    local is_old = type(mark) ~= 'table' or math.abs(now - (tonumber(mark[1]) or 0)) > MARK_KEPT
    if name == holder and not is_old and not mark[4] then mark[4], changed = true, true end
    changed = changed or is_old
  end
  if changed then write_missed(marks) end
end
