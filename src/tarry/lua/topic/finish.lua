local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, stale, finished, results, keyed, by_key, turns, paces = unpack(KEYS)
local clock, is_replay = unpack(ARGV)
-- each: id, receipt, result = unpack(ARGV, i, i + 2)
--
-- Removes jobs whose work is done, and keeps them as history if the topic or `result` says so; else `result` is ignored. A job that was
-- changed since it was handed out (lib/update.lua) gets a new run: it is ready at once, has no attempts, and leaves no history.
-- Answers how many, if all receipts hold; else 1 for each, or why the receipt does not hold.
-- include clock job

local FIRST, STRIDE = 3, 3
-- include given_jobs
local set, ends = redis.call('HMGET', meta, 'concurrency', 'keep_finished', 'missed'), nil
if keyed then
-- include usual_finish_with_keys
else
-- include usual_finish
end

-- include run count receipt
if not keyed then
-- include no_keys
end
local answers, settled, seen, refused = {}, {}, {}, 0
local places, with_result = {}, false
local overtaken, anew, is_anew, unread = {}, {}, {}, nil
for i, id in ipairs(ids) do
  local receipt = ARGV[FIRST + STRIDE * (i - 1) + 1]
  local fault, first = receipt_fault(id, receipt, known[i], ends[i])
  local was_done = false  -- by the first call, whose answer was lost
  if is_replay == '1' and fault and fault ~= 'replay' then
-- include stale
    was_done = (fault == 'gone' or is_of_another(id, tonumber(receipt))) and not is_stale(id, tonumber(receipt))
  end
  if seen[id] and not fault then fault = 'gone' end
  seen[id] = seen[id] or not fault
  if fault == 'replay' then  -- the first call was lost, and the job put back: nobody else has it
-- include flags order bytes
    note_out(id)
    redis.call('ZREM', due, id)
-- include used by_key turns
    if keyed and leave(id) then keep_turns() end
    keep_bytes()
    redis.call('ZREM', retrying, id)
    local died = redis.call('ZSCORE', dead, id)
    if died then
      redis.call('ZREM', dead, id)
      unread = {tonumber(died), id, unread}
    end
  end
  local settles = not fault or fault == 'replay'
  if settles then
    settled[#settled + 1], places[#settled + 1] = id, i
    with_result = with_result or ARGV[FIRST + STRIDE * i - 1] ~= ''
    if select(7, unpack_run(known[i])) then anew[#anew + 1], is_anew[id] = {id, redis.call('HGET', jobs, id)}, true end
    if first > 0 then overtaken[#overtaken + 1] = {id, receipt - 1} end  -- it was handed out before
  end
  if not settles and not was_done then refused = refused + 1 end
  answers[i] = (settles or was_done) and 1 or fault
end
if #settled == 0 then set = {} end
local kept, all_kept, keep, index, usual = {}, true, nil, nil, tonumber(set[2])
local is_uneven, last_id, last_end = false, nil, 0  -- of what is kept: whether a reader of ends could not find it; the entry that is kept longest
if set[2] or with_result then
-- include history
  keep, index = keep_job, index_history
  for k, id in ipairs(settled) do
    local span, kind, result = read_given(ARGV[FIRST + STRIDE * places[k] - 1], set[2])
    local run = known[places[k]]
    if span > 0 and not is_anew[id] then
      if span ~= usual then is_uneven = true end
      kept[#kept + 1] = {id = id, span = span, kind = kind, result = result, run = run, first = (select(4, unpack_run(run)))}
    elseif not is_anew[id] then
      unread = {now, id, unread}
    end
  end
  all_kept = #kept == 0 or keep(kept[1], false)
end
if #settled > 0 then
  redis.call('ZREM', reserved, unpack(settled))
  for i = all_kept and 2 or 1, #kept do keep(kept[i], not all_kept) end
  if #overtaken > 0 then
-- include stale
    for _, job in ipairs(overtaken) do
      note_stale(unpack(job))
      redis.call('HDEL', attempts, job[1])
    end
    keep_stale()
  end
  redis.call('HDEL', runs, unpack(settled))
  redis.call('HDEL', jobs, unpack(settled))
  for _, job in ipairs(anew) do
    local id, value = unpack(job)
    if value then
      redis.call('HSET', jobs, id, struct.pack(MOMENT, now) .. string.sub(value, FLAGS_AT))
      redis.call('ZADD', reserved, text(now), id)  -- a reservation that is over: the next pop puts it into `due`
    end
  end
end
local has_turned = false
if keyed and #settled > 0 then
-- include flags used by_key turns
  for k, id in ipairs(settled) do free_place((select(8, unpack_run(known[places[k]]))), id) end
  has_turned = keep_turns()
end
if #kept > 0 then count('finished_lost', index(kept)) end
if usual and (is_uneven or unread or last_end > now + usual) then
-- include order unkept spans uneven_ends
end
if set[3] then
-- include missed
  note_alive(set[3], (select(5, unpack_run(known[places[1]] or ''))))
end
count('finished', #settled)
count('refused', refused)
if set[1] or #anew > 0 or has_turned then
-- include limits handout_limits watch capacity
  if note_capacity(#settled - #anew) or #anew > 0 or has_turned then update_watch('', false, handout_limits()) end
end
return answers
