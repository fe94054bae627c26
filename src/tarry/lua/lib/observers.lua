-- Worker processes that hold jobs, and who notices that one of them is gone.
--
--   holders     hash         holder → server, misses, first, last, topics    each is subscribed to a channel of its own
--   busy        sorted set   holder → when it last said so                   those that have reserved jobs
--   observers   sorted set   holder → by when it will look                   at most two, of different groups
--
-- The server itself counts the subscribers of a channel: none when the process is dead. This is not stored and not replicated, so
-- it means nothing about a holder that this server has never seen subscribed: after a restart, a fail-over, a moved slot. `server` is
-- the server that has seen it. A holder is absent after MISSES looks that miss it, at least APART from each other: time in which the
-- server stands still does not count. After ASKED of them it is asked over another connection, which blocks in BLPOP on a list with the
-- channel's name: if the token is gone at the last look, the server had that connection still, and the holder lives.
--
-- The processes of one parent are a group: they may be killed together, so only others look for them. Up to about CANDIDATES processes
-- stand by: they look whether the observers live, so that it is soon seen when both are killed.

local EVERY, SOON = 700000, 400000      -- how often an observer looks, and when somebody is missing
local STAND_BY, LEAVES = 600000, 8      -- how often one looks that stands by; of many, one in so many looks is the last
local LATE = 300000                     -- how late an observer may be before another one is called
local MISSES, APART, ASKED = 3, 300000, 2
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

-- Whether a process has to look for the busy holders of these groups: not only for its own.
local function is_of_use(name, first, second) return first and (second or group_of(name) ~= first) end

-- Nobody looks for this holder any more.
local function forget(name)
  redis.call('ZREM', busy, name)
  redis.call('DEL', channels .. name)
  return redis.call('HDEL', holders, name)
end

local function ask(name)
  redis.call('DEL', channels .. name)
  redis.call('RPUSH', channels .. name, '1')
  redis.call('PEXPIRE', channels .. name, KEPT)
end

local function has_answered(name) return redis.call('EXISTS', channels .. name) == 0 end

-- About CANDIDATES stand by, however many processes there are.
local function may_stand_by()
  local known = redis.call('HLEN', holders)
  return known <= CANDIDATES or now % known < CANDIDATES
end

local function stays_by() return now % LEAVES > 0 or redis.call('HLEN', holders) <= CANDIDATES end

-- Whether two others look, so that the caller only stands by: then, how long until it asks again, or one of them would be late.
local function others_look(caller)
  local seats = redis.call('ZRANGE', observers, 0, -1, 'WITHSCORES')
  if #seats < 4 then return false end
  local names, pause = {}, STAND_BY
  for i = 1, #seats, 2 do
    local by = tonumber(seats[i + 1])
    if seats[i] == caller or by < now - LATE or by > now + EVERY then return false end
    names[#names + 1], pause = seats[i], math.min(pause, by + LATE + 1 - now)
  end
  for _, n in ipairs(subscribers_of(names) or {}) do
    if n == 0 then return false end
  end
  return pause
end

-- The seats of observers that live and are not late.
local function taken_seats()
  redis.call('ZREMRANGEBYSCORE', observers, '-inf', text(now - LATE))
  redis.call('ZREMRANGEBYSCORE', observers, '(' .. text(now + EVERY), '+inf')  -- nobody promises more: the clock was set back
  local seats, alive = redis.call('ZRANGE', observers, 0, -1), {}
  local counts = #seats > 0 and subscribers_of(seats) or {}
  for i, name in ipairs(seats) do
    if counts[i] == 0 then redis.call('ZREM', observers, name) else alive[#alive + 1] = name end
  end
  return alive
end

-- Calls a process to look. Answers whether it lives.
local function call(name)
  local receivers = redis.pcall('PUBLISH', channels .. name, 'look')
  if receivers == 0 and not redis.call('ZSCORE', busy, name) then redis.call('HDEL', holders, name) end  -- died while it was idle
  return type(receivers) == 'number' and receivers > 0
end

-- Two observers for the busy holders of these groups: those that there are, the caller if it lives, and others that receive a message;
-- with `calls_all` all others receive it, and stand by. None of them would look for its own group only. Answers whether the caller is
-- one that was not among them before.
local function fill_seats(first, second, caller, calls_all)
  local seats, taken = taken_seats(), {}
  if not first then return false end
  for _, name in ipairs(seats) do taken[group_of(name)] = true end
  local missing, has_caller = 2 - #seats, false
  local function is_wanted(name) return missing > 0 and not taken[group_of(name)] and is_of_use(name, first, second) end
  local function seat(name)
    redis.call('ZADD', observers, text(now + EVERY), name)
    taken[group_of(name)], missing = true, missing - 1
  end
  if caller and is_wanted(caller) then
    seat(caller)
    has_caller = true
  end
  for _, name in ipairs((missing > 0 or calls_all) and redis.call('HRANDFIELD', holders, CANDIDATES) or {}) do
    local wanted = is_wanted(name)
    if (wanted or calls_all and is_of_use(name, first, second)) and call(name) and wanted then seat(name) end
  end
  return has_caller
end
