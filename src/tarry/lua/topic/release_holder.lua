local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3 = unpack(KEYS)
local clock, holder, counted, max_jobs, absent_for, cursor, scan_count = unpack(ARGV)
--
-- One bounded step through the reservations: those of one holder, which is certainly dead. They become ready again; without
-- `counted` the attempt is taken back; with it they are dead after their last attempt. At most `max_jobs` of them, if it is not empty. Not
-- those that were handed out in the last `absent_for` µs, if it is not empty: then the holder lives.
-- Answers the next cursor and how many jobs the holder had.
-- include clock refuse_partitioned job flags limits handout_limits watch capacity attempts bury priorities

local DIED = 'its worker died'
local step = redis.call('ZSCAN', reserved, cursor, 'COUNT', scan_count)
local ids, held = {}, {}
for i = 1, #step[2], 2 do ids[#ids + 1] = step[2][i] end
if #ids > 0 then
  for i, run in ipairs(redis.call('HMGET', runs, unpack(ids))) do
    local _, _, receipt, _, whose = unpack_run(run or '')
    if absent_for ~= '' and receipt > now - tonumber(absent_for) then whose = nil end
    if whose == holder then held[#held + 1] = {ids[i], run} end
  end
end
for i = #held, (tonumber(max_jobs) or #held) + 1, -1 do held[i] = nil end
local freed, died = 0, 0
for i, pair in ipairs(held) do
  local id, run = unpack(pair)
  if redis.call('ZREM', reserved, id) == 1 then  -- a scan may name one twice
    local attempt, max_attempts, receipt, first, _, fault = unpack_run(run)
    freed = freed + 1
    local confirmed = max_attempts ~= UNCONFIRMED
    if confirmed and counted == '1' then
      if first == 0 then first = now end
      note_attempt(id, attempt, receipt, holder, DIED)
    end
    if confirmed and counted == '1' and max_attempts > 0 and attempt >= max_attempts then
      bury_run(id, attempt, max_attempts, receipt, first, holder, EXHAUSTED .. DIED)
      died = died + 1
    else
      if confirmed and counted == '1' then
        fault = DIED
      else
        attempt = attempt - 1
      end
      redis.call('ZADD', due, text(now - #held + i - 1), id)
      index_again(id, text(now - #held + i - 1))
      redis.call('HSET', runs, id, pack_run(attempt, max_attempts, receipt, first, holder, fault))
    end
  end
end
count('released', freed - died)
count('died', died)
note_capacity(freed)
if freed > 0 then update_watch('', false, handout_limits()) end
return {step[1], freed}
