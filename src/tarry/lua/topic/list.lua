local due, reserved, dead, jobs, runs, meta, watch, wake, relay = unpack(KEYS)
local clock, place, side, from, to, past, limit = unpack(ARGV)
--
-- One page of a place (due, reserved, dead), in order, from a moment up to a moment, after the id `past` among those
-- of the first moment. At most 1 MB of bodies, at least one job.
-- Answers now, 1 if there is more, then id, state, moment, head and body, run of each.
-- include clock job window

local ENOUGH = 1000000
local low, high = window(side, from, to)
limit = tonumber(limit)
local answers, bytes, offset, more = {now, 0}, 0, 0, 0
local function seen(id, at) return past ~= '' and tonumber(at) == tonumber(from) and id <= past end

repeat
  local found = redis.call('ZRANGE', SETS[place], low, high, 'BYSCORE', 'LIMIT', offset, limit + 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local id, at = found[i], found[i + 1]
    if not seen(id, at) then
      if limit == 0 or bytes > ENOUGH then
        more = 1
        break
      end
      local value = redis.call('HGET', jobs, id) or ''
      bytes, limit = bytes + #value, limit - 1
      answers[#answers + 1] = {id, (place_of(id)), tonumber(at), value, redis.call('HGET', runs, id)}
    end
  end
  offset = offset + #found / 2
until more == 1 or #found == 0
answers[2] = more
return answers
