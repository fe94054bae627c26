"""A shared queue as the bench fills and drains it: Redisson's two scripts as the articles print them, run by plain redis-py."""

from __future__ import annotations

import random
import time
from typing import Any

from redis import Redis

from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import Format, pack

TRANSFER = """
local expiredValues = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1], 'limit', 0, ARGV[2]);
if #expiredValues > 0 then
    for i, v in ipairs(expiredValues) do
        local randomId, value = struct.unpack('dLc0', v);
        redis.call('rpush', KEYS[1], value);
        redis.call('lrem', KEYS[3], 1, v);
    end;
    redis.call('zrem', KEYS[2], unpack(expiredValues));
end;
local v = redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES');
if v[1] ~= nil then
    return v[2];
end
return nil;
"""
OFFER = """
local value = struct.pack('dLc0', tonumber(ARGV[2]), string.len(ARGV[3]), ARGV[3]);
redis.call('zadd', KEYS[2], ARGV[1], value);
redis.call('rpush', KEYS[3], value);
local v = redis.call('zrange', KEYS[2], 0, 0);
if v[1] == value then
    redis.call('publish', KEYS[4], ARGV[1]);
end;
"""
BATCH = 100
"""How many elements Redisson moves in one script."""
NAME = "orders"
KEYS = keys_of(NAME)
PIPELINE = 5000


def fill(redis: Redis, count: int, payload: bytes) -> None:
    """Offers ``count`` elements in random order of their due times, all of them in the past."""
    rng, now = random.Random(7), int(time.time() * 1000)
    pipe = redis.pipeline(transaction=False)
    for number in range(count):
        element = pack(payload, rng.randbytes(8), Format.OLD)
        pipe.rpush(KEYS.order, element)
        pipe.zadd(KEYS.timeouts, {element: now - rng.randrange(1, 10_000_000)})
        if number % PIPELINE == PIPELINE - 1:
            pipe.execute()
    pipe.execute()


def transfer(redis: Redis) -> Any:
    """Redisson's transfer, as QueueTransferTask calls it: with the client's clock."""
    now = int(time.time() * 1000)
    return redis.eval(TRANSFER, 3, KEYS.ready, KEYS.timeouts, KEYS.order, now, BATCH)
