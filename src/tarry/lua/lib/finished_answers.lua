-- How many were finished, or what became of each.
if finished_now == n then return n end
redis.call('HINCRBY', meta, 'n:refused', n - finished_now)  -- an id was given twice
local answers, seen = {}, {}
for i, id in ipairs(ids) do answers[i], seen[id] = seen[id] and 'gone' or 1, true end
return answers
