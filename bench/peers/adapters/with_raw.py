"""The limit: bare commands, pipelined where many are at hand, for one consumer that loses what it holds when it dies. No job queue."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import hiredis
import redis
import side

DUE, JOBS = "raw:due", "raw:jobs"
TAKEN = 1000
POLL_S = 0.5
"""It looks this often whether something nearer was added; what the bench adds is due later than that."""
ADD = "redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) return 1"


class Raw(side.Adder):
    """A socket, a packer, a parser: no client waits or checks anything."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)
        self._sha = self._redis.script_load(ADD)
        where = urlsplit(url)
        self._line = socket.create_connection((where.hostname, where.port))
        self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []

    def add(self, body: str, due: float) -> None:
        self._line.sendall(self._pack(body, due))
        self._read()

    def add_many(self, bodies: list[str], due: float) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(JOBS, mapping={body[:8]: body for body in bodies})
            pipe.zadd(DUE, {body[:8]: due for body in bodies})
            pipe.execute()

    async def add_in_task(self, body: str, due: float) -> None:
        """What all tasks add in one turn of the loop is one pipeline."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        added = loop.create_future()
        self._waiting.append((self._pack(body, due), added))
        await added

    def _flush(self) -> None:
        sent, self._waiting = self._waiting, []
        self._line.sendall(b"".join(packed for packed, _ in sent))
        for _, added in sent:
            self._read()
            added.set_result(None)

    def _pack(self, body: str, due: float) -> bytes:
        packed: bytes = hiredis.pack_command(("EVALSHA", self._sha, 2, DUE, JOBS, body[:8], due, body))
        return packed

    def _read(self) -> None:
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._line.recv(1 << 16))
        assert reply == 1, reply


def work(url: str, _slots: int) -> None:
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    while True:
        due = client.zrangebyscore(DUE, 0, time.time(), start=0, num=TAKEN)
        if due:
            with client.pipeline(transaction=False) as pipe:
                pipe.hmget(JOBS, due)
                pipe.zrem(DUE, *due)
                pipe.hdel(JOBS, *due)
                bodies = pipe.execute()[0]
            for body in bodies:
                side.ran(body)
        else:
            first = client.zrange(DUE, 0, 0, withscores=True)
            time.sleep(max(0.0, min(POLL_S, first[0][1] - time.time() if first else POLL_S)))


if __name__ == "__main__":
    side.main(Raw, work)
