-- What holds a topic back, read from `meta`:
--
--   ruled         there when anything below, or a default of the topic, has been set; else none of it is looked at
--   paused        the end of the pause; or a moment that is past: of the last one
--   fires         when the next schedule of the topic is due
--   limited       there when any of the following is
--   rate          "n span": n jobs a span of µs;  burst: how many at once after a quiet time
--   spent         "since used": so many went since; the next goes at since + (used + 1 - burst) * span / n
--   concurrency   how many may be reserved at a time;  opened: when a place was last free again
--   max_lateness  µs after which a job is not handed out any more

local function read_limits()
  local BURST = 100000  -- µs: without one of its own, a rate may be ahead by what comes in so long
  local set = redis.call('HMGET', meta, 'rate', 'burst', 'spent', 'concurrency', 'opened', 'max_lateness')
  local found = {cap = tonumber(set[4]), opened = tonumber(set[5] or 0), stale = tonumber(set[6]), opens = 0}
  local n, span, since, used, burst
  if set[1] then
    n, span = string.match(set[1], '^(%d+) (%d+)$')
    since, used = string.match(set[3] or '0 0', '^(%d+) (%d+)$')
    n, span, since, used = tonumber(n), tonumber(span), tonumber(since), tonumber(used)
    burst = tonumber(set[2] or math.max(1, math.floor(n * BURST / span)))
    if since + used * span / n <= now then since, used = now, 0 end  -- quiet for so long: the whole burst again
    found.burst = burst
  end

  -- When the k-th job from now may go; 0 when no rate says so.
  function found.at(k) return n and since + math.ceil((used + k - burst) * span / n) or 0 end

  -- How many may go now.
  function found.room()
    local most = math.huge
    if n then
      most = math.max(0, math.floor((now - since) * n / span) + burst - used)
      if most > 0 and found.at(most) > now then most = most - 1 end  -- both are rounded: `at` decides
      if found.at(most + 1) <= now then most = most + 1 end
    end
    if found.cap then most = math.min(most, found.cap - redis.call('ZCARD', reserved)) end
    return most
  end

  -- So many went. Whole spans are taken off, so that the sum stays exact.
  function found.spend(k)
    if not n then return end
    local whole = math.floor((used + k) / n)
    since, used = since + whole * span, used + k - whole * n
    redis.call('HSET', meta, 'spent', text(since) .. ' ' .. text(used))
  end

  -- What `settle` is told: when the rate lets a job go, whether the cap is reached.
  function found.gates()
    return found.at(1), found.cap ~= nil and redis.call('ZCARD', reserved) >= found.cap
  end
  return found
end
