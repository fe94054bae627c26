-- The state of a job that `migrate` has taken out, and the moment stored with it: they hold until the job has arrived.
local function leaving_state(id)
  local name, at = string.match(redis.call('HGET', leaving, id) or '', '^(%a+) (%d+)$')
  if name == 'due' or name == 'held' then return tonumber(at) > now and 'delayed' or 'ready', tonumber(at) end
  if name == 'dead' then return 'dead', tonumber(at) end
end
