local items, fence, polled, channel = unpack(KEYS)
local clock, unit, limit, bound, who, nonce, is_replay = unpack(ARGV)
--
-- Takes up to `limit` due items, the first due first; the last batch of each caller is kept for a minute, in case its answer is
-- lost. `bound`, if not empty: if the first is later than so many µs, nothing is taken.
-- Answers: now in µs, the next due time in units (-1: none, or a repeated call), how late the first is if that is too late (else -1),
-- then for each item: member, due time in units.
-- include clock

local MOST_BYTES, KEPT_S = 4000000, 60
unit = tonumber(unit)
if is_replay == '1' then
  local kept = redis.call('HGET', polled, who)
  if kept and string.sub(kept, 1, #nonce) == nonce then return cmsgpack.unpack(string.sub(kept, #nonce + 1)) end
end

local due = redis.call('ZRANGE', items, '-inf', text(math.floor(now / unit)), 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
local late = due[2] and now - due[2] * unit or 0
if bound ~= '' and late > tonumber(bound) then return {now, -1, late} end

local answers, members, bytes = {now, -1, -1}, {}, 0
for i = 1, #due, 2 do
  if bytes > MOST_BYTES then break end
  bytes = bytes + #due[i]
  members[#members + 1] = due[i]
  answers[#answers + 1] = due[i]
  answers[#answers + 1] = due[i + 1]
end
if #members > 0 then
  redis.call('ZREM', items, unpack(members))
  redis.pcall('HSET', polled, who, nonce .. cmsgpack.pack(answers))
  redis.pcall('EXPIRE', polled, KEPT_S)
end
answers[2] = tonumber(redis.call('ZRANGE', items, 0, 0, 'WITHSCORES')[2] or -1)
return answers
