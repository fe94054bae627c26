local ready, order, timeouts, channel, poison, movers, format, leaving = unpack(KEYS)
local clock = unpack(ARGV)
--
-- The numbers of a queue. Changes nothing.
-- Answers now, how many are not moved yet, of those overdue, ready, set aside, leaving, seats taken; when the first is due, ms;
-- and the stored format.
-- include clock

local head = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')
return {
  now,
  redis.call('LLEN', order),
  redis.call('ZCOUNT', timeouts, '-inf', text(math.floor(now / 1000))),
  redis.call('LLEN', ready),
  redis.call('HLEN', poison),
  redis.call('ZCARD', leaving),
  redis.call('ZCOUNT', movers, text(now - 1000000), '+inf'),
  head[2] or false,
  redis.call('GET', format),
}
