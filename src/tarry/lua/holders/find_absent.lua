local holders, busy, observers = unpack(KEYS)
local clock, observer, channels = unpack(ARGV)
--
-- An observer looks for worker processes that hold jobs and whose connections have ended. One that stands by looks only whether the
-- observers live.
-- Answers µs until it shall look again, 0 if it need not; then of each that is missed for the second time or more: its name, since
-- when, whether it is absent, its topics.
-- include clock observers

local names = redis.call('ZRANGE', busy, 0, MOST - 1)
local waits = #names > 0 and others_look(observer)
if waits then return {stays_by() and waits or 0} end
local counts = #names > 0 and subscribers_of(names)
redis.call('ZREM', observers, observer)  -- a removal first (clock.lua)
if not counts then return {0} end

local missed, seen, server, any_missing = {}, {}, server_id(), false
local records = redis.call('HMGET', holders, unpack(names))
for i, name in ipairs(names) do
  local seen_by, misses, first, last, topics = read_record(records[i])
  if counts[i] > 0 then
    seen[#seen + 1] = name
    if seen_by ~= server or misses > 0 then write_record(name, server, 0, 0, now, topics) end
  elseif seen_by ~= server then
    if now - last > UNSEEN then forget(name) end
  else
    if misses == 0 or math.abs(now - last) >= APART and misses < MISSES then
      if misses == 0 then first = now end
      misses = misses + 1
      write_record(name, server, misses, first, now, topics)
      if misses == ASKED then ask(name) end
    end
    if misses >= MISSES and has_answered(name) then
      forget(name)  -- it lives, and says again that it is there as soon as it can
    else
      seen[#seen + 1], any_missing = name, true
      if misses >= ASKED then
        for _, value in ipairs({name, text(first), misses >= MISSES and 1 or 0, topics}) do missed[#missed + 1] = value end
      end
    end
  end
end

local first, second = groups_of(seen)
local pause = 0
if fill_seats(first, second, observer) then
  pause = any_missing and SOON or EVERY
end
return {pause, unpack(missed)}
