-- The pause and the limits of a topic, in `meta`:
--
--   ruled         present if anything below, or a default of the topic, has been set; else none of it is read. "keys": only what concerns keys has been
--   paused        the end of the pause, or of the last one
--   fires         when the next schedule of the topic is due
--   keyed_next    when the first job with a key may go; empty: none (lib/by_key.lua)
--   limited       "n span burst concurrency max_lateness", 0 for none; written by configure.lua:
--                 n jobs a span of µs, `burst` of them at once after a quiet time; `concurrency` reserved at a time;
--                 µs after the due time, after which a job is not handed out
--   spent         "since used": so many were handed out since; the next may go at since + (used + 1 - burst) * span / n
--   paced         when the rate was last changed
--   opened        when a place last became free at the concurrency limit
--
-- Another form of `limited` is a newer version's: then nothing is handed out (pop.lua refuses).

local LIMITED, CLOSED = '^(%d+) (%d+) (%d+) (%d+) (%d+)$', 60000000

local function read_limits(limited, rate_used, place_freed_at)
  local n, span, burst, concurrency, max_lateness = string.match(limited, LIMITED)
  if not n then return {place_freed_at = 0, next_and_full = function() return now + CLOSED, false end} end
  n, span, burst = tonumber(n), tonumber(span), tonumber(burst)
  concurrency, max_lateness = tonumber(concurrency), tonumber(max_lateness)
  local since, used, held = 0, 0, concurrency > 0 and redis.call('ZCARD', reserved) or 0
  if n > 0 then
    since, used = string.match(rate_used or '0 0', '^(%d+) (%d+)$')
    since, used = tonumber(since or 0), tonumber(used or 0)
    local ends = since + used * span / n
    if ends <= now then since, used = now, 0 end  -- a quiet time: the whole burst is available again
    if ends > now + burst * span / n + 1 then since, used = now, burst - 1 end  -- further ahead than any burst: the clock was set back
  end
  local limits = {place_freed_at = tonumber(place_freed_at or 0), max_lateness = max_lateness > 0 and max_lateness}

  -- When the k-th job from now may be handed out; 0 without a rate.
  function limits.time_of(k) return n > 0 and since + math.ceil((used + k - burst) * span / n) or 0 end

  -- How many jobs may be handed out now.
  function limits.available()
    local most = math.huge
    if n > 0 then
      most = math.max(0, math.floor((now - since) * n / span) + burst - used)
      if most > 0 and limits.time_of(most) > now then most = most - 1 end  -- both are rounded, and `at` decides
      if limits.time_of(most + 1) <= now then most = most + 1 end
    end
    return concurrency > 0 and math.min(most, concurrency - held) or most
  end

  -- Notes that k jobs were handed out. Answers `spent`: whole spans are subtracted, so that the sum stays exact.
  function limits.consume(k)
    held = held + k
    if n == 0 then return '0 0' end
    local whole = math.floor((used + k) / n)
    since, used = since + whole * span, used + k - whole * n
    return text(since) .. ' ' .. text(used)
  end

  -- The last arguments of `update_watch`: when the rate allows a job, whether the concurrency limit is reached.
  function limits.next_and_full() return limits.time_of(1), concurrency > 0 and held >= concurrency end

  return limits
end
