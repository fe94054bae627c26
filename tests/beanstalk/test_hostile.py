"""What no client sends: tarry answers as beanstalkd does, holds no more memory for it, and goes on serving the others."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import accumulate, count

import pytest

import tarry
from beanstalk.beans import Bean
from beanstalk.conftest import Beanstalk, speaking
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.connection_limits import HEAD_S, UNREAD_S, FileShares, PortLimits
from tarry.programs.serving.turns import MOST_IN_A_TURN
from tarry.verbs import tokens
from until import until

Connect = Callable[[], Bean]
AFTER = b"list-tube-used\r\n"
SENT = [
    b"put 0 0 1 5 \r\nhello\r\n", b"put 0 0 1 5 x\r\nhello\r\n", b"put 0 -1 1 5\r\nhello\r\n",
    b"put 4294967296 0 1 1\r\na\r\n", b"put -1 0 1 1\r\na\r\n", b"put 0 0 4294967296 1\r\na\r\n",
    b"put 0 4294967296 1 1\r\na\r\n", b"put 0 0 1 -1\r\n", b"put 0 0 1 1\r\naXY\r\n",
    b"put 0 0 1 65536\r\n" + b"x" * 65536 + b"\r\n", b"put 0 0 1 200000\r\n" + b"\r\n" * 100001,
    b"put\r\n", b"put \r\n", b"put 0 0 1\r\n", b"putt 1\r\n", b"PUT 0 0 1 1\r\n",
    b"reserve \r\n", b"reservex\r\n", b"reserve-with-timeout\r\n",
    b"reserve-with-timeout 99999999999999999999\r\n", b"reserve-job x\r\n", b"reserve-job 999\r\n", b"reserve-job\r\n",
    b"delete\r\n", b"delete abc\r\n", b"delete -1\r\n", b"delete 1x\r\n", b"delete 18446744073709551616\r\n",
    b"delete 18446744073709551615\r\n", b"delete 0\r\n", b"delete 999 \r\n", b"release 1\r\n", b"release 1 0\r\n",
    b"release 999 0 0\r\n", b"release 999 0 0 \r\n", b"release 1 4294967296 0\r\n", b"bury 999 0\r\n", b"bury 999\r\n",
    b"touch 999\r\n", b"touch\r\n", b"touch x\r\n", b"use \r\n", b"use\r\n", b"use -a\r\n", b"use a b\r\n",
    b"use " + b"a" * 200 + b"\r\nuse default\r\n", b"use " + b"a" * 201 + b"\r\n", b"use a,b\r\n", b"use \xc3\xa4\r\n",
    b"use a_b()$;.+-/\r\nuse default\r\n", b"watch\r\n", b"watch " + b"b" * 201 + b"\r\n", b"ignore\r\n", b"ignore a,b\r\n",
    b"peek\r\n", b"peek x\r\n", b"peek 999\r\n", b"peek-ready x\r\n", b"peek-foo\r\n", b"kick\r\n", b"kick x\r\n",
    b"kick 1\r\n", b"kick-job\r\n", b"kick-job x\r\n", b"kick-job 999\r\n", b"pause-tube nope 1\r\n",
    b"pause-tube default\r\n", b"pause-tube default x\r\n", b"pause-tube default 1 x\r\n", b"pause-tube\r\n", b"stats x\r\n",
    b"stats-job x\r\n", b"stats-job\r\n", b"stats-job 999\r\n", b"stats-tube nope\r\n", b"stats-tube\r\n", b"stats-tube a,b\r\n",
    b"list-tubes x\r\n", b"list-tube-used x\r\n", b"\r\n", b"foo\r\n", b"stats\x00\r\n", b"\x00\r\n", b"a\nb\r\n",
    b"x" * 222 + b"\r\n", b"x" * 223 + b"\r\n", b"x" * 224 + b"\r\n", b"x" * 1000 + b"\r\n", b"x" * 100_000 + b"\r\n",
    b"quit x\r\n", b"quitx\r\n", b"quit\r\n",
]  # fmt: skip


def replies(port: int, data: bytes) -> bytes:
    """All that a server answers to these bytes and a command after them."""
    with Bean(port) as client:
        client.send(data + AFTER)
        client.socket.shutdown(socket.SHUT_WR)
        found = bytearray()
        while reply := client.reply():
            found += reply
        return bytes(found)


def test_the_same_bytes_get_the_same_replies(service: Beanstalk, real_beanstalkd: int) -> None:
    different = []
    for data in SENT:
        found, expected = replies(service.port, data), replies(real_beanstalkd, data)
        if len(data) == 225 and data.startswith(b"xx"):
            expected = b"BAD_FORMAT\r\nUSING default\r\n"  # beanstalkd loses the next line, too
        if found != expected:
            different.append((data[:40], found, expected))
    assert different == []


def test_a_command_may_arrive_byte_by_byte(connect: Connect) -> None:
    client = connect()
    for byte in b"use mails\r\nput 0 0 60 4\r\n\r\n\r\n\r\nlist-tube-used\r\n":
        client.send(bytes([byte]))
    assert client.reply() == b"USING mails\r\n"
    assert client.reply().startswith(b"INSERTED")
    assert client.reply() == b"USING mails\r\n"


READ_AT_ONCE = 2**18
"""Bytes that asyncio reads, before anybody can say that they are too many."""


@pytest.mark.parametrize(
    "data", [b"x" * 5_000_000, b"put 0 0 60 65535\r\nx", b"put 0 0 60 4294967295\r\n" + b"x" * 5_000_000]
)
def test_what_never_ends_takes_no_memory(service: Beanstalk, connect: Connect, data: bytes) -> None:
    client, other = connect(), connect()
    client.send(data)
    assert other(b"use a") == b"USING a"
    sizes = [len(one._buffer) for one in service.server._connections]
    assert max(sizes) < 200_000 + READ_AT_ONCE


def test_a_client_that_reads_no_replies_is_read_no_further(service: Beanstalk, connect: Connect) -> None:
    greedy, other = connect(), connect()
    other.put(b"x" * 60_000)
    greedy.socket.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(10_000):
            greedy.socket.send(b"peek-ready\r\n" * 1000)
        pytest.fail("it was read to the end")
    assert other(b"use a") == b"USING a"
    assert max(len(one._buffer) for one in service.server._connections) < 500_000
    greedy.close()
    until(lambda: len(service.server._connections) == 1)


@pytest.mark.parametrize("path", [b"/", b"/" + b"x" * 5_000], ids=["short", "long"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_web_page_is_no_client(connect: Connect, path: bytes, parts: int) -> None:
    client = connect()
    if parts == 2:
        client.send(b"POST " + path[:100])
        assert connect()(b"use a") == b"USING a"  # the first part has arrived
        path = path[100:]
    client.send(
        (b"POST " if parts == 1 else b"") + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nput 0 0 60 4\r\nevil\r\n"
    )
    with suppress(ConnectionError):
        assert client.reply() == b""
    assert connect()(b"reserve-with-timeout 0") == b"TIMED_OUT"


def test_a_connection_watches_a_thousand_tubes_at_most(connect: Connect) -> None:
    client = connect()
    client.send(b"".join(b"watch t%d\r\n" % n for n in range(1000)))
    assert [client.reply() for _ in range(1000)][-2:] == [b"WATCHING 1000\r\n", b"OUT_OF_MEMORY\r\n"]


@pytest.mark.slow
@pytest.mark.parametrize("many", [2_500, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_idle_connections(service: Beanstalk, many: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = many if hard == resource.RLIM_INFINITY or hard >= 2 * many + 1000 else (hard - 1000) // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * wanted + 1000), hard))
    service.running.app.files.most = 2 * wanted + 1000
    idle: list[socket.socket] = []
    try:
        idle.extend(socket.create_connection(("127.0.0.1", service.port)) for _ in range(wanted))
        until(lambda: len(service.server._connections) == wanted)
        with Bean.of(idle[0]) as first, Bean.of(idle[-1]) as last:
            first.send(b"reserve\r\n")
            number = last.put(b"tea")
            assert first.reply() == b"RESERVED %d 3\r\ntea\r\n" % number
    finally:
        for one in idle:
            one.close()
        until(lambda: not service.server._connections)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ── how long, and how many ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def guarded(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Beanstalk, bytes]]:
    """A service that needs tokens, whose looks are of the test; and an ``auth`` command."""
    monkeypatch.setattr(PortLimits, "_look_again", lambda *_: None)
    settings = ServiceSettings(namespaces=(namespace,), tokens=True)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        text, id, record = tokens.create_token(os.urandom, ("admin",))
        client.engine.run(tokens.store_token(namespace, id, record))
    with speaking(valkey_url, namespace, service=settings) as made:
        yield made, b"auth " + text.encode()


def look(service: Beanstalk, later: float) -> None:
    service.running.call(lambda: service.server.limits.look(service.running.loop.time() + later))


def test_a_connection_has_ten_seconds_to_auth(guarded: tuple[Beanstalk, bytes]) -> None:
    service, auth = guarded
    silent, refused, known = (service.connect() for _ in range(3))
    assert known(auth) == b"AUTHORIZED"
    assert refused(b"use a") == b"UNAUTHORIZED"
    look(service, 0)
    look(service, HEAD_S)
    for one in (silent, refused):
        with suppress(ConnectionError):
            assert one.reply() == b""
    known.send(b"reserve\r\n")
    until(lambda: any(one.is_busy for one in service.server._connections))
    for second in range(600):
        look(service, second)
    job = service.connect()
    assert job(auth) == b"AUTHORIZED"
    number = job.put(b"tea")
    assert known.reply() == b"RESERVED %d 3\r\ntea\r\n" % number


def test_a_connection_whose_token_was_revoked_has_ten_seconds_to_auth_again(
    guarded: tuple[Beanstalk, bytes], valkey_url: str, namespace: str
) -> None:
    """Then what it has reserved goes back."""
    service, auth = guarded
    revoked, again = service.connect(), service.connect()
    with tarry.Client(valkey_url, namespace=namespace) as client:
        text, id, record = tokens.create_token(os.urandom, ("admin",))
        client.engine.run(tokens.store_token(namespace, id, record))
        for one in (revoked, again):
            until(lambda one=one: one(b"auth " + text.encode()) == b"AUTHORIZED")
        number = revoked.put(b"tea")
        assert revoked(b"reserve").startswith(b"RESERVED %d" % number)
        client.engine.run(tokens.delete_token(namespace, id))
    for one in (revoked, again):
        until(lambda one=one: one(b"use a") == b"UNAUTHORIZED")
    look(service, 0)
    assert again(auth) == b"AUTHORIZED"
    look(service, HEAD_S)
    with suppress(ConnectionError):
        assert revoked.reply() == b""
    assert again(b"reserve") == b"RESERVED %d 3\r\ntea" % number


def test_replies_that_nobody_reads_are_ended(service: Beanstalk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PortLimits, "_look_again", lambda *_: None)
    greedy, other = service.connect(), service.connect()
    other.put(b"x" * 60_000)
    greedy.socket.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(10_000):
            greedy.socket.send(b"peek-ready\r\n" * 1000)
    until(
        lambda: service.running.call(
            lambda: any(one.transport.get_write_buffer_size() for one in service.server.limits)
        )
    )
    looks = count()

    def is_alone() -> bool:
        """Looked at once for each imaginary half a minute, for the kernel may still take some of it."""
        look(service, next(looks) * (UNREAD_S + 1))
        return len(service.server._connections) == 1

    until(is_alone)
    assert other(b"use a") == b"USING a"


def test_connections_without_a_token_make_room(
    guarded: tuple[Beanstalk, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, auth = guarded
    monkeypatch.setattr(FileShares, "share", 4)
    reserving = service.connect()
    assert reserving(auth) == b"AUTHORIZED"
    number = reserving.put(b"tea")
    assert reserving(b"reserve").startswith(b"RESERVED")
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(suppress(OSError))
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
        for _ in range(5):
            with Bean(service.port) as new:
                assert new(auth) == b"AUTHORIZED"
        assert len(service.server.limits) <= 4
    assert reserving(b"delete %d" % number) == b"DELETED"


def test_refused_commands_leave_turns_to_others(guarded: tuple[Beanstalk, bytes]) -> None:
    """Thousands of them arrive in one read; another connection is served while they are refused."""
    service, auth = guarded
    flooding, other = service.connect(), service.connect()
    flooding.send(b"use a\r\n" * 5000)
    until(lambda: any(one.is_busy for one in service.server._connections))
    assert other(auth) == b"AUTHORIZED"
    assert service.server.state.commands["use"] < 5000


def test_few_commands_without_a_token_are_refused_in_a_turn(guarded: tuple[Beanstalk, bytes]) -> None:
    """However many connections send them: those that wait to be accepted wait for turns."""
    service, auth = guarded
    commands, loop, counted = service.server.state.commands, service.running.loop, [0]

    def count_turns() -> None:
        counted.append(commands["use"])
        if counted[-1] < 5000:
            loop.call_soon(count_turns)

    with ExitStack() as stack:
        flooding = [stack.enter_context(Bean(service.port)) for _ in range(3 * MOST_IN_A_TURN)]
        service.running.call(count_turns)
        for one in flooding:
            one.send(b"use a\r\n" * 1000)
        with Bean(service.port) as other:
            assert other(auth) == b"AUTHORIZED"
        until(lambda: counted[-1] >= 5000)
    # it is counted in the midst of a turn: of n turns of the loop there is the work of at most n + 1
    ahead = [so_far - turn * MOST_IN_A_TURN for turn, so_far in enumerate(counted)]
    assert max(now - least for least, now in zip(accumulate(ahead, min), ahead, strict=True)) <= MOST_IN_A_TURN
