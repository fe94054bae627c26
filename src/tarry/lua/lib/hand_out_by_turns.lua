-- Hands out jobs of a topic that has jobs with a key, by the turns of their keys (lib/by_key.lua). Each key is a stream of jobs, of which the
-- next one has a turn. Jobs without a key are between them by their due times; with `fair` they are one key of their own. A key is looked at
-- once for each job that it gives, and no key that has no turn. One whose turn was wrong gives none: at most 16 more of these are looked at than
-- jobs are handed out. As few functions as can be: see docs/decisions/0111-small-scripts-and-what-a-call-costs.md.

local LONG_AHEAD, MOST_BY_TURNS, MOST_IN_VAIN, run_with_key, wrongs = 1000000, 250, 16, nil, 0
local concurrency, of_rate, span, is_fair = string.match(key_rules[1] or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$')
concurrency, of_rate, is_fair = tonumber(concurrency or 0), tonumber(of_rate or 0), is_fair == '1'
local pace_after_one = of_rate > 0 and math.ceil(now + span / of_rate)
local ring, own_turn, recount, set, has_turned = tonumber(key_rules[2] or 0), tonumber(key_rules[4] or 0), key_rules[5], nil, false
if ring > now + LONG_AHEAD then ring, own_turn, recount = now, 0, '' end  -- the clock was set back
if recount then
-- include recount
  is_in_vain, has_turned = true, true
end

-- include read_key
-- What is read of a key: as many entries as it has places, those of its reserved jobs first, or only two that wait, where it has no limit or a high one.
local from, limit = '\0"', 2
if concurrency > 0 and concurrency <= FEW_PLACES then from, limit = '\0', concurrency end

max_jobs = math.min(max_jobs, MOST_BY_TURNS)  -- such a job takes longer: the next pop gives more
local may_have_more, passed, ahead = true, 0, math.huge  -- keys that are due after now, and before the ring ends
while may_have_more and handed < max_jobs and buried < 100 and skipped < MOST_SKIPPED and bytes < ENOUGH and not is_full do
  local reads, skipped_before, passed_before = math.min(max_jobs - handed, step), skipped, passed
  local found, owners, entries, since, changed, wrong = {}, {}, {}, {}, {}, {}
  is_given = {}
-- include take_by_turns
  local picked = n
  wrongs = wrongs + #wrong
  local is_enough = wrongs + passed >= handed + n + MOST_IN_VAIN
  may_have_more = n == reads or skipped > skipped_before or (#wrong > 0 or passed > passed_before) and not is_enough
  is_in_vain = is_in_vain or passed > 0 and is_enough
-- include hand_out keep_turns_taken
  step = math.max(math.min(math.floor((ENOUGH - bytes) * (handed + 1) / (2 * bytes + 1)), STEP), 1)
end
