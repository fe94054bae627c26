-- Worker processes that hold jobs, and who notices that one of them is gone.
--
--   holders     hash         holder → server, misses, first, last, topics    each is subscribed to a channel of its own
--   busy        sorted set   holder → when it last said so                   those that have reserved jobs
--   observers   sorted set   holder → by when it will look                   at most two, of different groups
--
-- The server itself counts the subscribers of a channel: none when the process is dead. This is not stored and not replicated, so
-- it means nothing about a holder that this server has never seen subscribed: after a restart, a fail-over, a moved slot. `server` is
-- the server that has seen it. A holder is absent after MISSES looks that miss it, at least APART from each other: time in which the
-- server stands still does not count.
--
-- The processes of one parent are a group: they may be killed together, so only others look for them.

local EVERY, SOON = 700000, 400000      -- how often an observer looks, and when somebody is missing
local LATE = 500000                     -- how late it may be before another one is called
local MISSES, APART = 3, 300000
local UNSEEN, KEPT = 60000000, 86400000 -- after a minute (µs) unseen on this server a holder is dropped; after a day (ms) all are
local MOST, CANDIDATES = 1000, 20       -- a look is for so many; those that have been silent for longest come first

-- The id of the server's history: a new one after each start and each promotion.
local function server_id() return string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '?' end

local function read_record(record)
  local server, misses, first, last, topics = string.match(record or '', '^(%S+) (%d+) (%d+) (%d+) (.*)$')
  return server or '', tonumber(misses or 0), tonumber(first or 0), tonumber(last or 0), topics or '[]'
end

local function write_record(holder, server, misses, first, last, topics)
  redis.call('HSET', holders, holder, table.concat({server, misses, text(first), text(last), topics}, ' '))
end

-- How many subscribers the channels of these holders have; nil if the caller may not ask.
local function subscribers_of(names)
  local asked = {}
  for i, name in ipairs(names) do asked[i] = channels .. name end
  local found = redis.pcall('PUBSUB', 'NUMSUB', unpack(asked))
  if found.err then return nil end
  local counts = {}
  for i = 1, #names do counts[i] = tonumber(found[2 * i]) end
  return counts
end

-- A holder's name is HOST:PROCESS:WORD, and a parent's children share its WORD.
local function group_of(holder) return string.match(holder, '^[^:]*:[^:]*:([^:]*)') or holder end

-- Two groups of these holders; the second is nil if there is one only.
local function groups_of(names)
  local first = names[1] and group_of(names[1])
  for _, name in ipairs(names) do
    if group_of(name) ~= first then return first, group_of(name) end
  end
  return first
end

-- Two observers for the busy holders of these groups: those that there are, the caller, and others that receive a message.
-- None of them would look for its own group only. Answers whether the caller is one that was not among them before.
local function fill_seats(first, second, caller)
  redis.call('ZREMRANGEBYSCORE', observers, '-inf', text(now - LATE))
  redis.call('ZREMRANGEBYSCORE', observers, '(' .. text(now + EVERY), '+inf')  -- nobody promises more: the clock was set back
  local seats, taken = redis.call('ZRANGE', observers, 0, -1), {}
  if not first or #seats >= 2 then return false end
  for _, name in ipairs(seats) do taken[group_of(name)] = true end
  local missing, has_caller = 2 - #seats, false
  local function seat(name, is_there)
    local group = group_of(name)
    if missing == 0 or taken[group] or not second and group == first or not is_there(name) then return false end
    redis.call('ZADD', observers, text(now + EVERY), name)
    taken[group], missing = true, missing - 1
    return true
  end
  has_caller = seat(caller, function() return true end)
  for _, name in ipairs(missing > 0 and redis.call('HRANDFIELD', holders, CANDIDATES) or {}) do
    seat(name, function()
      local receivers = redis.pcall('PUBLISH', channels .. name, 'look')
      if receivers == 0 and not redis.call('ZSCORE', busy, name) then redis.call('HDEL', holders, name) end  -- died while it was idle
      return type(receivers) == 'number' and receivers > 0
    end)
  end
  return has_caller
end
