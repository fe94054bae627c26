-- Entries of the indexes of priorities that differ from `due` are skipped and removed, a bounded number at a time.

-- Of entries of an index those that agree with `due`, at most `max_jobs`; the others are removed.
local function agreeing(index, found, max_jobs)
  local ids, kept, gone = {}, {}, {}
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i] end
  for i, score in ipairs(redis.call('ZMSCORE', due, unpack(ids))) do
    if score ~= found[2 * i] then
      gone[#gone + 1] = ids[i]
    elseif #kept < 2 * max_jobs then
      kept[#kept + 1], kept[#kept + 2] = ids[i], score
    end
  end
  if #gone > 0 then redis.call('ZREM', index, unpack(gone)) end
  skipped = skipped + #gone
  return kept
end
