-- What holds a topic back, in `meta`:
--
--   ruled         there when anything below, or a default of the topic, has been set; else none of it is looked at
--   paused        the end of the pause; or a moment that is past: of the last one
--   fires         when the next schedule of the topic is due
--   limited       "n span burst cap latest", 0 for what there is not; packed by configure.lua of what it is given:
--                 n jobs a span of µs, `burst` of them at once after a quiet time; `cap` reserved at a time;
--                 µs after which a job is not handed out any more
--   spent         "since used": so many went since; the next goes at since + (used + 1 - burst) * span / n
--   paced         when the rate was last changed
--   opened        when a place was last free again under a full cap

--
-- Another shape of `limited` is a newer version's: nothing is handed out by what cannot be read (pop.lua says so).

local LIMITED, CLOSED = '^(%d+) (%d+) (%d+) (%d+) (%d+)$', 60000000

local function read_limits(limited, spent, opened)
  local n, span, burst, cap, latest = string.match(limited, LIMITED)
  if not n then return {opened = 0, gates = function() return now + CLOSED, false end} end
  n, span, burst, cap, latest = tonumber(n), tonumber(span), tonumber(burst), tonumber(cap), tonumber(latest)
  local since, used, held = 0, 0, cap > 0 and redis.call('ZCARD', reserved) or 0
  if n > 0 then
    since, used = string.match(spent or '0 0', '^(%d+) (%d+)$')
    since, used = tonumber(since or 0), tonumber(used or 0)
    local ends = since + used * span / n
    if ends <= now then since, used = now, 0 end  -- quiet for so long: the whole burst again
    if ends > now + burst * span / n + 1 then since, used = now, burst - 1 end  -- further than any burst goes: the clock was set back
  end
  local found = {opened = tonumber(opened or 0), latest = latest > 0 and latest}

  -- When the k-th job from now may go; 0 when no rate says so.
  function found.at(k) return n > 0 and since + math.ceil((used + k - burst) * span / n) or 0 end

  -- How many may go now.
  function found.room()
    local most = math.huge
    if n > 0 then
      most = math.max(0, math.floor((now - since) * n / span) + burst - used)
      if most > 0 and found.at(most) > now then most = most - 1 end  -- both are rounded: `at` decides
      if found.at(most + 1) <= now then most = most + 1 end
    end
    return cap > 0 and math.min(most, cap - held) or most
  end

  -- So many went. Answers `spent`: whole spans are taken off, so that the sum stays exact.
  function found.spend(k)
    held = held + k
    if n == 0 then return '0 0' end
    local whole = math.floor((used + k) / n)
    since, used = since + whole * span, used + k - whole * n
    return text(since) .. ' ' .. text(used)
  end

  -- What `settle` is told: when the rate lets a job go, whether the cap is reached.
  function found.gates() return found.at(1), cap > 0 and held >= cap end

  return found
end
