-- Jobs that are put back because nobody here knows their task: their hand-outs count no longer, neither as popped nor as late.
--
--   meta   late:K   hand-outs of that lateness (lib/lateness.lua)
--          noted    hand-outs of jobs that were put back before: their due times say nothing of lateness. `popped` is the sum of all
--          most:K   the most that late:K was when one was taken out
--          most     the same of the sum
--
-- A view shows the larger of the two. So no number falls, which Prometheus would take for a restart; the next hand-outs make up for
-- it, and `pop` knows nothing of this.

-- `us`: how late a job was after its due time. If it waited for a pause or a limit, it was counted as less late: then the next lower
-- bucket that has one loses it.
local function take_out(us, receipt, was_noted)
  local fields, numbers, sum = redis.call('HGETALL', meta), {}, 0
  for i = 1, #fields, 2 do numbers[fields[i]] = tonumber(fields[i + 1]) end
  for field, n in pairs(numbers) do
    if field == NOTED or string.find(field, '^late:') then sum = sum + n end
  end
  local most = text(math.max(sum, numbers.most or 0))
  if was_noted then return redis.call('HSET', meta, NOTED, text(math.max(numbers[NOTED] or 0, 1) - 1), 'most', most) end
  local paused = numbers.paused or 0
  if paused <= receipt then us = math.min(us, receipt - paused) end
  for k = math.floor(math.log(us + 1) / math.log(2) * 4), 0, -1 do
    local n = numbers['late:' .. k] or 0
    if n > 0 then
      local most_so_late = text(math.max(n, numbers['most:' .. k] or 0))
      return redis.call('HSET', meta, 'late:' .. k, text(n - 1), 'most:' .. k, most_so_late, 'most', most)
    end
  end
end
