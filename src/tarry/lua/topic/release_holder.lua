local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, keyed, by_key, turns, paces = unpack(KEYS)
local clock, holder, counted, max_jobs, absence, after, up_to, cursor, limit = unpack(ARGV)
-- each: receipt = unpack(ARGV, i, i)
--
-- One bounded step through the reservations: those of one holder, which is certainly dead. They become ready again; without
-- `counted` the attempt is taken back; with it they are dead after their last attempt. At most `max_jobs` of them, if it is not empty.
-- Answers the next cursor and how many jobs the holder had.
--
-- `absence`, if given, is when observers first missed the holder. Then the first call sets a mark (lib/missed.lua), and its jobs are
-- released when the mark has stood for AGE without a sign of life. Answers -1 as long as the mark is too young, -2 if the holder lives.
--
-- `up_to`, if given: only of the receipts above `after`, up to it, without those that are listed: their pops were answered.
-- include clock refuse_partitioned job run count flags limits handout_limits watch capacity attempts bury priorities missed order bytes by_key turns

local DIED, FIRST = 'its worker died', 10
local AGE, TOO_YOUNG, LIVES = 300000, -1, -2
local marks, mark = nil, nil
if absence ~= '' then
  local known = redis.call('HMGET', meta, 'missed', 'last')
  marks = read_missed(known[1])
  mark = marks[holder]
  if not mark or mark[2] ~= absence then
    if redis.call('ZCARD', reserved) == 0 then return {'0', 0} end
    marks[holder] = {now, absence, tonumber(known[2] or 0) or now}
    write_missed(marks)
    return {'0', TOO_YOUNG}
  end
  if mark[4] then return {'0', LIVES} end
  if math.abs(now - mark[1]) < AGE then return {'0', TOO_YOUNG} end
end
local answered = {}
for i = FIRST, #ARGV do answered[tonumber(ARGV[i])] = true end
local lowest, highest = tonumber(after) or -1, tonumber(up_to) or math.huge
if max_jobs == '0' then return {'0', 0} end
local step = redis.call('ZSCAN', reserved, cursor, 'COUNT', limit)
local ids, held = {}, {}
for i = 1, #step[2], 2 do ids[#ids + 1] = step[2][i] end
if #ids > 0 then
  for i, run in ipairs(redis.call('HMGET', runs, unpack(ids))) do
    local _, _, receipt, _, whose = unpack_run(run or '')
    local is_meant = receipt > lowest and receipt <= highest and not answered[receipt]
    if whose == holder and is_meant and (not mark or receipt <= mark[3]) then held[#held + 1] = {ids[i], run} end
  end
end
for i = #held, (tonumber(max_jobs) or #held) + 1, -1 do held[i] = nil end
local freed, died = 0, 0
local holds = #held > 0 and uses_keys() and redis.call('HGET', meta, 'retry_holds_key')
for i, pair in ipairs(held) do
  local id, run = unpack(pair)
  if redis.call('ZREM', reserved, id) == 1 then  -- a scan may name one twice
    local attempt, max_attempts, receipt, first, _, fault, is_changed, key = unpack_run(run)
    free_place(key, id)
    freed = freed + 1
    local confirmed = max_attempts ~= UNCONFIRMED
    if confirmed and counted == '1' then
      if first == 0 then first = now end
      note_attempt(id, attempt, receipt, holder, DIED)
    end
    local is_last = confirmed and counted == '1' and max_attempts > 0 and attempt >= max_attempts
    if is_last and not is_changed then
      bury_run(id, attempt, max_attempts, receipt, first, holder, EXHAUSTED .. DIED)
      died = died + 1
    else
      if confirmed and counted == '1' then
        fault = DIED
        if is_last then attempt = 0 end
      else
        attempt = attempt - 1
      end
      local at = now - #held + i - 1
      if not enter(id, at, nil, holds) then
        redis.call('ZADD', due, text(at), id)
        index_again(id, text(at))
      end
      note_in(id, at)
      redis.call('HSET', runs, id, pack_run(attempt, max_attempts, receipt, first, holder, fault, is_changed))
    end
  end
end
keep_bytes()
keep_turns()
count('released', freed - died)
count('died', died)
note_capacity(freed)
if freed > 0 then update_watch('', false, handout_limits()) end
if mark and step[1] == '0' then
  marks[holder] = nil
  write_missed(marks)
end
return {step[1], freed}
