-- Publishes an event of an entry on its channel: each part with its length. Redisson publishes only if it has listeners, and
-- uses sharded channels on a Cluster that has them.

local function publish(channel, message)
  if sharded == '1' and type(redis.pcall('SPUBLISH', channel, message)) == 'number' then return end
  redis.pcall('PUBLISH', channel, message)  -- pcall: the script must go on even if this is refused
end

local function event(key, value, old)
  local message = struct.pack('<I8c0I8c0', #key, key, #value, value)
  return old and message .. struct.pack('<I8c0', #old, old) or message
end

local function publish_event(channel, key, value, old)
  read_options()
  if listened then publish(channel, event(key, value, old)) end
end
