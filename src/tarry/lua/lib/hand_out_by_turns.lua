-- Hands out jobs of a topic that has jobs with a key, by the turns of their keys (lib/by_key.lua). Each key is a stream of jobs, of which the
-- next one has a turn. Jobs without a key are between them by their due times; with `fair` they are one key of their own. A key is looked at
-- once for each job that it gives, and no key that has no turn. As few functions as can be: see docs/decisions/0111-small-scripts-and-what-a-call-costs.md.

local RESERVED, NO_PRIORITY, LONG_AHEAD = 'r', 51, 1000000
local concurrency, of_rate, span, is_fair = string.match(rules[13] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
concurrency, of_rate, is_fair = tonumber(concurrency or 0), tonumber(of_rate or 0), is_fair == '1'
local pace_after_one = of_rate > 0 and math.ceil(now + span / of_rate)
local ring, own_turn, recount, set = tonumber(rules[14] or 0), tonumber(rules[16] or 0), rules[17], nil
if ring > now + LONG_AHEAD then ring, own_turn, recount = now, 0, '' end  -- the clock was set back
if recount then
-- include recount
  is_in_vain = true
end

-- The first entry of a key from there on that is due, its moment, and the entry behind it; or nothing, and when the first one is due.
local function first_of_key(key, from)
  local soonest
  while true do
    local entry, next = unpack(redis.call('ZRANGE', by_key, from, '(' .. key .. '\0' .. RESERVED, 'BYLEX', 'LIMIT', 0, 2))
    if not entry then return nil, soonest end
    local at = struct.unpack('>d', entry, #key + 3)
    if at <= now then return entry, at, next end
    soonest = math.min(soonest or at, at)
    local level = string.byte(entry, #key + 2)
    if level >= NO_PRIORITY then return nil, soonest end
    from = '[' .. key .. '\0' .. string.char(level + 1)
  end
end

local may_have_more = true
while may_have_more and handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full do
  local reads, skipped_before = math.min(max_jobs - handed, step), skipped
  local found, owners, entries, changed, wrong = {}, {}, {}, {}, {}
  is_given = {}
-- include take_by_turns
  local picked = n
  may_have_more = n == reads or skipped > skipped_before
-- include hand_out keep_turns_taken
  step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
end
