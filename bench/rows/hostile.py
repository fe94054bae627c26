"""2,000 hostile connections of each kind at a service that may open 1,024 files, all without a token.

answered      the longest answer to clients with a token, each with a new connection, and to one that keeps its own; and the most
              processor time that the service used during one, which a busy machine distorts least
SIGTERM       until the process has exited, while they are still there

They are opened as fast as they can be, and stay. A client whose connection is closed without an answer asks again: that counts.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import time
from contextlib import suppress

import tarry
from bench import load
from bench.harness import Bench
from bench.load import Connection
from bench.results import Reading, Result, Target
from tarry.verbs import tokens

FILES, SOON_S = 1024, 0.02
KINDS: dict[str, tuple[str, bytes]] = {
    "silent": ("http", b""),
    "half a head": ("http", b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nA: "),
    "half a body": ("http", b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\ntoken="),
    "half a body, refused": ("http", b"POST /v1/topics/a/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{"),
    "idle": ("http", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    "unread": ("http", b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 60),
    "beanstalkd's port, silent": ("beanstalk", b""),
    "beanstalkd's port, unread": ("beanstalk", b"stats\r\n" * 20_000),
}
"""By kind, the port and what is sent first."""


def hostile(bench: Bench) -> list[Result]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = bench.size(2000, 2000, 40)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2 * count + 1000, hard)), hard))
    with tarry.Client(bench.url) as client:
        token, id, record = tokens.create_token(os.urandom, ("produce", "view"))
        client.engine.run(tokens.store_token("default", id, record))
    kinds = list(KINDS)[:: bench.size(1, 1, 5)]
    return [result for kind in kinds for result in _measure(bench, kind, count, token)]


def _measure(bench: Bench, kind: str, count: int, token: str) -> list[Result]:
    port, first = KINDS[kind]
    words = ("--drain", "1s", "--beanstalk", "127.0.0.1:0")
    with load.service(bench.url, *words, files=FILES) as running:
        ask = b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n"
        attacked = running.beanstalk if port == "beanstalk" else running.port
        lines, answers, used, failed = asyncio.run(_attack(attacked, first, count, running, ask, bench))
        began = time.perf_counter()
        running.child.send_signal(signal.SIGTERM)
        running.child.wait(60)
        ended = time.perf_counter() - began
        for line in lines:
            line.close()
    told: dict[str, float | str] = {"processor ms": 1000 * max(used), "answers": len(answers), "asked again": failed}
    return [
        Result(
            "hostile",
            f"{kind}: longest answer to a token",
            "ms",
            Reading((1000 * max(answers),)),
            Target("≤", 1000),
            details=told,
        ),
        Result("hostile", f"{kind}: SIGTERM", "s", Reading((ended,)), Target("≤", 10)),
    ]


async def _attack(
    port: int, first: bytes, count: int, running: load.Service, ask: bytes, bench: Bench
) -> tuple[list[socket.socket], list[float], list[float], int]:
    kept = await Connection.to(running.port)
    await kept.ask(ask)
    lines = list[socket.socket]()
    attack = asyncio.create_task(_open(port, first, count, lines))
    answers, used, failed, until = list[float](), list[float](), 0, time.perf_counter() + bench.size(20, 5, 1)
    while not attack.done() or time.perf_counter() < until:
        for new in (True, False):
            began, cpu = time.perf_counter(), running.cpu_s
            while True:
                try:
                    line = await Connection.to(running.port) if new else kept
                    await line.ask(ask)
                    break
                except (OSError, AssertionError, asyncio.IncompleteReadError):
                    failed += 1
                    if not new:
                        kept = await Connection.to(running.port)
            answers.append(time.perf_counter() - began)
            used.append(running.cpu_s - cpu)
            if line is not kept:
                line.close()
        await asyncio.sleep(SOON_S)
    kept.close()
    return lines, answers, used, failed


async def _open(port: int, first: bytes, count: int, lines: list[socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    for number in range(count):
        line = socket.socket()
        lines.append(line)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.setblocking(False)
        with suppress(OSError):
            await loop.sock_connect(line, ("127.0.0.1", port))
            if first:
                line.send(first)
        if number % 50 == 0:
            await asyncio.sleep(0)
