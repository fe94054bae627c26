"""2,000 hostile connections of each kind at a service that may open 1,024 files. None has a token, but those that wait behind one.

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
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trustme

import tarry
from bench import load
from bench.harness import Bench
from bench.load import Connection
from bench.results import Reading, Result, Target
from tarry.verbs import tokens

FILES, SOON_S, DRIP_S = 1024, 0.02, 1.0
AT_ONCE = 50
"""How many open their connections at the same time."""
HOST = "127.0.0.1"
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
POP = b'POST /v1/topics/none/pop HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer VALID\r\nContent-Length: 11\r\n\r\n{"wait":60}'
SQS = b"POST /sqs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@dataclass(frozen=True)
class Kind:
    """What the connections of a kind do, without reading any answer."""

    first: bytes = b""
    """What each sends first. ``INVENTED`` is a token that does not exist, another one each time; ``VALID`` is one that does."""
    drip: bytes = b""
    """What each sends afterwards, a byte a second."""
    is_beanstalk: bool = False
    """It is beanstalkd's port."""
    tls: bool | None = None
    """The service speaks TLS; whether their handshakes end."""


KINDS = {
    "silent": Kind(),
    "half a head": Kind(b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nA: "),
    "slow heads": Kind(b"GET /v1/topics HTTP/1.1\r\n", drip=b"Host: x\r\nA: " + b"a" * 1000),
    "half a body": Kind(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\ntoken="),
    "half a body, refused": Kind(b"POST /v1/topics/a/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{"),
    "idle": Kind(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    "unread": Kind(DOCUMENT * 60),
    "unread, gzip": Kind(DOCUMENT.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n") * 60),
    "invented tokens": Kind(b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer INVENTED\r\n\r\n"),
    "pipelined behind a pop that waits": Kind(POP + b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"),
    "SQS, unsigned": Kind(SQS + b"Content-Length: 8000000\r\n\r\nAction=" + b"%41" * 20_000),
    "TLS, silent in the handshake": Kind(tls=False),
    "TLS, half a handshake": Kind(b"\x16\x03\x01\x02\x00\x01", tls=False),
    "TLS, never closed": Kind(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", tls=True),
    "TLS, idle": Kind(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", tls=True),
    "beanstalkd's port, silent": Kind(is_beanstalk=True),
    "beanstalkd's port, unread": Kind(b"stats\r\n" * 20_000, is_beanstalk=True),
    "beanstalkd's port, invented tokens": Kind(b"auth INVENTED\r\n", is_beanstalk=True),
}


def hostile(bench: Bench) -> list[Result]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = bench.size(2000, 2000, 40)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2 * count + 1000, hard)), hard))
    kinds = list(KINDS)[:: bench.size(1, 1, 5)]
    return [result for kind in kinds for result in _measure(bench, kind, count)]


def _measure(bench: Bench, name: str, count: int) -> list[Result]:
    kind, token = KINDS[name], _new_token(bench)
    kind = Kind(kind.first.replace(b"VALID", token), kind.drip, kind.is_beanstalk, kind.tls)
    with _service(bench, with_tls=kind.tls is not None) as (running, trust):
        attack = Attack(kind, running, trust)
        answers, used, failed = asyncio.run(_ask_during(attack, count, token, bench.size(20, 5, 1)))
        began = time.perf_counter()
        running.child.send_signal(signal.SIGTERM)
        running.child.wait(60)
        ended = time.perf_counter() - began
        for line in attack.lines:
            line.close()
    told: dict[str, float | str] = {"processor ms": 1000 * max(used), "answers": len(answers), "asked again": failed}
    longest = Reading((1000 * max(answers),))
    return [
        Result("hostile", f"{name}: longest answer to a token", "ms", longest, Target("≤", 1000), details=told),
        Result("hostile", f"{name}: SIGTERM", "s", Reading((ended,)), Target("≤", 10)),
    ]


def _new_token(bench: Bench) -> bytes:
    token, id, record = tokens.create_token(os.urandom, ("produce", "view", "consume"))
    with tarry.Client(bench.url) as client:
        client.engine.run(tokens.store_token("default", id, record))
    return token.encode()


@contextmanager
def _service(bench: Bench, *, with_tls: bool) -> Iterator[tuple[load.Service, ssl.SSLContext | None]]:
    """A service, and what its clients trust if it speaks TLS."""
    words, trust = ["--drain", "1s", "--beanstalk", f"{HOST}:0", "--dialect", "sqs"], None
    with tempfile.TemporaryDirectory() as folder:
        if with_tls:
            authority, pem, trust = trustme.CA(), Path(folder, "pem"), ssl.create_default_context()
            authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(pem)
            authority.configure_trust(trust)
            words += ["--certificate", str(pem), "--key", str(pem)]
        with load.service(bench.url, *words, files=FILES) as running:
            yield running, trust


class Attack:
    """The connections of one kind."""

    def __init__(self, kind: Kind, running: load.Service, trust: ssl.SSLContext | None) -> None:
        self.kind, self.running, self.trust = kind, running, trust
        self.port = running.beanstalk if kind.is_beanstalk else running.port
        self.lines = list[socket.socket]()

    async def open(self, count: int) -> None:
        for _ in range(0, count, AT_ONCE):
            await asyncio.gather(*[self._open_one() for _ in range(min(AT_ONCE, count))])

    async def _open_one(self) -> None:
        line = socket.socket()
        self.lines.append(line)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.setblocking(False)
        first = self.kind.first
        if b"INVENTED" in first:
            first = first.replace(b"INVENTED", tokens.create_token(os.urandom, ("view",))[0].encode())
        with suppress(OSError):  # it was closed already
            await asyncio.get_running_loop().sock_connect(line, (HOST, self.port))
            if self.kind.tls and self.trust is not None:
                first = await _shake_hands(line, self.trust, first)
            if first:
                line.send(first)

    async def drip(self) -> None:
        for at in range(len(self.kind.drip)):
            await asyncio.sleep(DRIP_S)
            for line in self.lines:
                with suppress(OSError):
                    line.send(self.kind.drip[at : at + 1])


async def _shake_hands(line: socket.socket, trust: ssl.SSLContext, first: bytes) -> bytes:
    """The client's part of a handshake. Returns its last bytes, with the first request."""
    incoming, outgoing, loop = ssl.MemoryBIO(), ssl.MemoryBIO(), asyncio.get_running_loop()
    client = trust.wrap_bio(incoming, outgoing, server_hostname=HOST)
    while True:
        try:
            client.do_handshake()
            client.write(first)
            return outgoing.read()
        except ssl.SSLWantReadError:
            await loop.sock_sendall(line, outgoing.read())
            if not (some := await loop.sock_recv(line, 65536)):
                raise ConnectionError from None
            incoming.write(some)


async def _ask_during(
    attack: Attack, count: int, token: bytes, at_least_s: float
) -> tuple[list[float], list[float], int]:
    """The answers to clients with a token, the processor time during each, and how often one had to ask again."""
    running, trust = attack.running, attack.trust
    ask = b"GET /v1/topics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
    kept = await Connection.to(running.port, trust)
    await kept.ask(ask)
    opening, dripping = asyncio.create_task(attack.open(count)), asyncio.create_task(attack.drip())
    answers, used, failed, until = list[float](), list[float](), 0, time.perf_counter() + at_least_s
    while not opening.done() or time.perf_counter() < until:
        for new in (True, False):
            began, cpu = time.perf_counter(), running.cpu_s
            while True:
                try:
                    line = await Connection.to(running.port, trust) if new else kept
                    await line.ask(ask)
                    break
                except (OSError, AssertionError, asyncio.IncompleteReadError):
                    failed += 1
                    if not new:
                        kept = await Connection.to(running.port, trust)
            answers.append(time.perf_counter() - began)
            used.append(running.cpu_s - cpu)
            if line is not kept:
                line.close()
        await asyncio.sleep(SOON_S)
    dripping.cancel()
    kept.close()
    await opening
    return answers, used, failed
