-- How long finished jobs of the topic are kept, if some are kept for another time than the topic's: by a task, or by an earlier setting.
--
--   meta   spans   "SPAN:UNTIL …": in use until that moment at the latest
--
-- `finished` is in the order of the ends of their keeps. So the jobs of one span are in the order in which they were finished.

local MOST_SPANS, DAY_LONG = 16, 86400000000

-- Those of which jobs may be kept still.
local function read_spans(stored)
  local found, n = {}, 0
  for span, to in string.gmatch(stored or '', '(%d+):(%d+)') do
    if span + to > now then found[tonumber(span)], n = tonumber(to), n + 1 end
  end
  return found, n
end

-- When the finished job whose keep ends at this moment was finished, at the latest.
local function finished_by(ends)
  local set = redis.call('HMGET', meta, 'keep_finished', 'spans')
  local shortest = tonumber(set[1] or math.huge)
  for span in pairs((read_spans(set[2]))) do shortest = math.min(shortest, span) end
  return math.min(ends - shortest, now)
end

local function write_spans(found)
  local parts = {}
  for span, to in pairs(found) do parts[#parts + 1] = text(span) .. ':' .. text(to) end
  table.sort(parts)
  redis.call('HSET', meta, 'spans', table.concat(parts, ' '))
end
