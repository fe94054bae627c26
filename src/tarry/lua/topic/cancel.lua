local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, stale, cancelled, keyed, by_key, turns, paces = unpack(KEYS)
local clock = unpack(ARGV)
-- each: id = unpack(ARGV, i, i)
--
-- Deletes jobs in any state, as `delete` does. For one that is reserved it also notes the receipt, until a minute after the
-- reservation would have ended: its worker asks `cancelled` when its renewal is refused, and stops the run.
-- Answers for each the state it was in, or nothing.
-- include clock job run count flags place migrated_job stale priorities order unkept bytes by_key turns take_out

local FIRST, STRIDE, MINUTE, MOST = 2, 1, 60000000, 10000
local answers, deleted, ended, noted = {}, 0, 0, 0
redis.call('ZREMRANGEBYSCORE', cancelled, '-inf', text(now))
if redis.call('ZCARD', cancelled) > MOST then redis.call('DEL', cancelled) end
for i = FIRST, #ARGV, STRIDE do
  local id = ARGV[i]
  local state = place_of(id) or leaving_state(id)
  if state then
    local ends = redis.call('ZSCORE', reserved, id)
    local was_reserved, receipt = take_out(id)
    if was_reserved == 1 and receipt then
      local until_then = math.max(tonumber(ends), now) + MINUTE
      redis.call('ZADD', cancelled, text(until_then), id .. ' ' .. text(receipt))
      noted = noted + 1
    end
    deleted, ended = deleted + 1, ended + was_reserved
  end
  redis.call('HDEL', runs, id)
  redis.call('HDEL', jobs, id)
  answers[#answers + 1] = state or false
end
if noted > 0 then
  local last = redis.call('ZRANGE', cancelled, -1, -1, 'WITHSCORES')[2]
  redis.call('EXPIRE', cancelled, math.ceil((tonumber(last) - now) / 1000000))
end
keep_stale()
keep_unkept()
keep_bytes()
count('deleted', deleted)
keep_turns()
if ended > 0 and (uses_keys() or redis.call('HEXISTS', meta, 'concurrency') == 1) then
-- include limits handout_limits watch capacity
  if note_capacity(ended) or uses_keys() then update_watch('', false, handout_limits()) end
end
return answers
