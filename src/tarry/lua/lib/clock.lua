-- The clock: the server's, in microseconds. A test may pass its own time on a test server, which has the command below (ECHO
-- under another name); on any other server the command is unknown, and the time is refused.
-- The first write of many scripts is a removal, of nothing if need be: the server lets a script that begins so write with a full
-- memory, too. They say `a removal first` there.

local function text(us) return string.format('%.0f', us) end  -- `..` would round numbers of 15 digits and more

local now, second  -- the second is text
if clock == '' then
  local time = redis.call('TIME')
  second = time[1]
  now = time[1] * 1000000 + time[2]
else
  local imaginary = redis.pcall('tarry-imaginary-clock', clock)
  if type(imaginary) == 'table' then
    return redis.error_reply('CLOCK this server was not started for tests; it keeps its own time')
  end
  now = tonumber(imaginary)
  second = text(math.floor(now / 1000000))
end
local LAST_MOMENT = 253402300799999999  -- the end of the year 9999
local MOMENT = '<I7'  -- a moment, as the head of a job has it
local LEASE = 1000000  -- the time after which every add knows of a limit for producers that was set (lib/lease.lua)
local HORIZON = 10500000  -- no seat of the watch is needed for what is due later: the longest time between two pops, and a twentieth more
