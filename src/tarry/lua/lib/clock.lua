-- The clock: the server's, in microseconds. A test may pass its own time on a test server, which has the command below (ECHO
-- under another name); on any other server the command is unknown, and the time is refused.

local function text(us) return string.format('%.0f', us) end  -- `..` would round numbers of 15 digits and more

local function read_clock()
  if clock == '' then
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
  end
  local imaginary = redis.pcall('tarry-imaginary-clock', clock)
  if type(imaginary) == 'table' then
    return nil, redis.error_reply('CLOCK this server was not started for tests; it keeps its own time')
  end
  return tonumber(imaginary)
end

local now, refused = read_clock()
if refused then return refused end
local HORIZON = 10500000  -- no seat of the watch is needed for what is due later: the longest time between two pops, and a twentieth more
