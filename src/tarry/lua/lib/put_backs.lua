-- Jobs that are put back because nobody here knows their task: their hand-outs count no longer, neither as popped nor as late.
--
--   meta   late:K   hand-outs of that lateness (lib/lateness.lua); `popped` is the sum of them
--          most:K   the most that they were when one was taken out
--          most     the same of their sum
--
-- A view shows the larger of the two. So no number falls, which Prometheus would take for a restart; the next hand-outs make up for
-- it, and `pop` knows nothing of this.

-- `us`: how late a job was after its due time. If it waited for a pause or a limit, it was counted as less late: then the next lower
-- bucket that has one loses it.
local function take_out(us, receipt)
  local fields, late, sum = redis.call('HGETALL', meta), {}, 0
  for i = 1, #fields, 2 do late[fields[i]] = tonumber(fields[i + 1]) end
  for field, n in pairs(late) do
    if string.find(field, '^late:') then sum = sum + n end
  end
  local paused = late.paused or 0
  if paused <= receipt then us = math.min(us, receipt - paused) end
  for k = math.floor(math.log(us + 1) / math.log(2) * 4), 0, -1 do
    local n = late['late:' .. k] or 0
    if n > 0 then
      local most = text(math.max(n, late['most:' .. k] or 0))
      redis.call('HSET', meta, 'late:' .. k, text(n - 1), 'most:' .. k, most, 'most', text(math.max(sum, late.most or 0)))
      return
    end
  end
end
