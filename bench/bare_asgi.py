"""A bare ASGI application, the yardstick of the service: it reads the body, does one bare EVALSHA, and answers JSON.

python -m bench.bare_asgi URL
"""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

import uvicorn
from redis.asyncio import Redis

from bench.harness import BARE_ADD
from tarry.worker.worker_process import run_in_loop

ANSWER = b'{"id":"7","receipt":1}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class BareApplication:
    """Adds a job with the body of every request, whatever its path."""

    def __init__(self, redis: Redis, sha: str) -> None:
        self._redis = redis
        self._sha = sha
        self._ids = count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        id = next(self._ids)
        await self._redis.evalsha(self._sha, 2, "bare:jobs", "bare:due", f"job-{id}", id, body)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})


async def main(url: str) -> None:
    async with Redis.from_url(url) as redis:
        app = BareApplication(redis, await redis.script_load(BARE_ADD))
        config = uvicorn.Config(app, port=0, log_level="warning", access_log=False, lifespan="off")
        server, listener = uvicorn.Server(config), config.bind_socket()
        print(f"service at http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        await server.serve([listener])


if __name__ == "__main__":
    run_in_loop(main(sys.argv[1]))
