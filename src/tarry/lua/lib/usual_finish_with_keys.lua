-- The usual on a topic that has jobs with a key: as lib/usual_finish.lua, and the places of the keys become free. A key that has a turn had a
-- place before, and its turn stays; the turns of the others are found again.
ends = redis.call('ZMSCORE', reserved, unpack(ids))
local is_usual, freed, names = is_replay == '0' and not (set[1] or set[2] or set[3]), {}, {}
local i, receipt, plain, with_key = FIRST + 1, nil, nil, nil
for k = 1, is_usual and n or 0 do
  local run, at = known[k], ends[k]
  if ARGV[i] ~= receipt then
    receipt = ARGV[i]
    plain, with_key = struct.pack('<dd', receipt, 0), struct.pack('<dd', receipt, 0.5)  -- the fraction of lib/run.lua
  end
  local said = run and string.sub(run, RECEIPT_AT, FIRST_ENDS)
  if not at or at + 0 <= now or ARGV[i + 1] ~= '' or said ~= plain and said ~= with_key then
    is_usual = false
    break
  end
  if said == with_key then
    local from = RUN_SIZE + string.byte(run, RUN_SIZE) + 2
    local key = string.sub(run, from, from + (string.byte(run, from - 1) or 0) - 1)
    freed[#freed + 1], names[#names + 1] = key .. '\0!' .. ids[k], key
  end
  i = i + STRIDE
end
if is_usual then
-- include finish_reserved
  if #freed > 0 then
    redis.call('ZREM', by_key, unpack(freed))
    local full = {}
    for k, turn in ipairs(redis.call('ZMSCORE', turns, unpack(names))) do
      if not turn then full[#full + 1] = names[k] end
    end
    if #full > 0 then
-- include full_keys
    end
  end
-- include finished_answers
end
