"""The service under beanstalkd's protocol, beside beanstalkd itself with its log; clients and server on one machine.

puts              200-byte bodies, one by one
puts, pipelined   fifty are sent, then their fifty replies are read
reserve, delete   one by one; a job is reserved and deleted
µs                processor time of the service, or of beanstalkd, a job

One connection, then 64. Without the package beanstalkd there is no yardstick.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import load
from bench.harness import RAW_BODY, Bench
from bench.load import Service
from bench.results import Result, Turn, rates

CONNECTIONS = (1, 64)
PIPELINED = 50
PUT = b"put 1024 0 60 %d\r\n%s\r\n" % (len(RAW_BODY), RAW_BODY)
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def beanstalk(bench: Bench) -> list[Result]:
    results = []
    with load.service(bench.url, "--beanstalk", "127.0.0.1:0") as ours, _beanstalkd() as theirs:
        for connections in CONNECTIONS:
            jobs = bench.size(20_000, 5000, 100) if connections > 1 else bench.size(5000, 1500, 50)
            sides = [side for side in (ours, theirs) if side is not None]
            found = [[_turns(bench, side, connections, jobs) for side in sides] for _ in range(bench.repeat)]
            for at, what in enumerate(("puts", "puts, pipelined", "reserve and delete")):
                turns = [[turn[side][at] for turn in found] for side in range(len(sides))]
                costs = {
                    f"{name} µs": sum(turn.client_cpu_s for turn in own) / sum(turn.jobs for turn in own) * 1e6
                    for name, own in zip(("service", "beanstalkd"), turns, strict=False)
                }
                words = f"{what}, {connections} connection{'s' if connections > 1 else ''}"
                yardstick = rates(turns[1]) if len(turns) > 1 else None
                results.append(Result("beanstalk", words, "jobs/s", rates(turns[0]), None, yardstick, {**costs}))
    return results


def _turns(bench: Bench, side: Service, connections: int, jobs: int) -> tuple[Turn, Turn, Turn]:
    """Puts jobs one by one and pipelined; reserves and deletes as many, and then the rest."""

    def measure(some: Callable[[Stream], object], times: int) -> Turn:
        cpu, server_cpu, began = side.cpu_s, bench.server_cpu(), time.perf_counter()
        asyncio.run(_load(side.beanstalk, connections, times, some))
        wall = time.perf_counter() - began
        return Turn(jobs, wall, side.cpu_s - cpu, bench.server_cpu() - server_cpu)

    found = measure(_put, jobs), measure(_put_pipelined, jobs // PIPELINED), measure(_reserve, jobs)
    asyncio.run(_load(side.beanstalk, 16, jobs // PIPELINED * PIPELINED, _reserve))
    return found


async def _load(port: int, connections: int, jobs: int, one: Callable[[Stream], object]) -> None:
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
    left = iter(range(jobs))

    async def run(stream: Stream) -> None:
        for _ in left:
            await one(stream)  # type: ignore[misc]

    await asyncio.gather(*[run(stream) for stream in streams])
    for _, writer in streams:
        writer.close()


async def _ask(stream: Stream, request: bytes) -> bytes:
    reader, writer = stream
    writer.write(request)
    return await reader.readuntil(b"\r\n")


async def _put(stream: Stream) -> None:
    reply = await _ask(stream, PUT)
    assert reply.startswith(b"INSERTED"), reply


async def _put_pipelined(stream: Stream) -> None:
    reader, writer = stream
    writer.write(PUT * PIPELINED)
    for _ in range(PIPELINED):
        reply = await reader.readuntil(b"\r\n")
        assert reply.startswith(b"INSERTED"), reply


async def _reserve(stream: Stream) -> None:
    word, number, size = (await _ask(stream, b"reserve\r\n")).split()
    assert word == b"RESERVED"
    await stream[0].readexactly(int(size) + 2)
    reply = await _ask(stream, b"delete %s\r\n" % number)
    assert reply == b"DELETED\r\n", reply


@contextmanager
def _beanstalkd() -> Iterator[Service | None]:
    """beanstalkd with its log, which it flushes every 50 ms."""
    binary = shutil.which("beanstalkd")
    if binary is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        child = subprocess.Popen([binary, "-l", "127.0.0.1", "-p", str(port), "-b", folder], text=True)
        try:
            _wait_for(port)
            yield Service(child, 0, port)
        finally:
            child.terminate()
            child.wait(30)


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("beanstalkd does not answer")
