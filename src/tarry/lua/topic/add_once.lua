local due, reserved, dead, jobs, runs, meta, watch, wake, relay, retrying, attempts, priority1, priority2, priority3, leaving, finished, results, keyed, by_key, turns, paces = unpack(KEYS)
local clock, mode, lease, is_replay = unpack(ARGV)
-- each: id, mark_and_due, value = unpack(ARGV, i, i + 2)
--
-- Adds jobs as topic/add does, each once for as long as the topic keeps finished jobs: where a finished job that is kept has the id, and no
-- other one, nothing is added, whatever the mark. The answer is "=finished" and when its keep ends; if it was added with the same nonce,
-- it is this very job, and the answer is its due time.
-- A topic that keeps none by its own setting adds nothing: the answer is "unkept" for each.
-- include clock job count nonce flags

local keeps, ended = redis.call('HEXISTS', meta, 'keep_finished') == 1, {}
for i = 5, #ARGV, 3 do
  local ends = keeps and tonumber(redis.call('ZSCORE', finished, ARGV[i]) or 0)
  if not keeps or ends > now and redis.call('HEXISTS', jobs, ARGV[i]) == 0 then ended[i] = ends or 'unkept' end
end
-- include add_items history_format

local again = 0
for i, ends in pairs(keeps and ended or {}) do
  local id, mark_and_due, value = unpack(ARGV, i, i + 2)
  local index, answer = (i - FIRST) / STRIDE, '=finished ' .. text(ends)
  local record = redis.pcall('HGET', results, id)
  if type(record) == 'string' and #record > struct.size(HISTORY) and string.byte(record) == HISTORY_FORMAT then
    local _, _, _, run, failed, result, _, from = struct.unpack(HISTORY, record)
    local old = string.sub(record, from + run + failed + result)
    if nonce_of(old) == nonce_of(stamp .. value) then
      again = again + 1
      answer = due_of(index, mark_and_due, (struct.unpack(MOMENT, old)))
    end
  end
  answers[index + 2] = answer
end
if again > 0 then redis.pcall('HINCRBY', meta, 'n:repeated', again) end  -- perhaps the first write: with a full memory nothing is counted
return answers
