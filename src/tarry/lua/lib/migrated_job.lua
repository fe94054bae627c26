-- Where a job was that `migrate` has taken out of its place, and the moment that place knew: what it is until it has arrived.
local function leaving_state(id)
  local name, at = string.match(redis.call('HGET', leaving, id) or '', '^(%a+) (%d+)$')
  if name == 'due' then return tonumber(at) > now and 'delayed' or 'ready', tonumber(at) end
  if name == 'dead' then return 'dead', tonumber(at) end
end
