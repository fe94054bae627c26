"""Tokens, draining, metrics and limits of ``tarry serve --beanstalk``."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from beanstalk.beans import Bean
from beanstalk.conftest import Beanstalk, speaking
from tarry import BadInput, Client
from tarry.connections.background import failures
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import ServerUnfit
from tarry.programs.beanstalk import server as beanstalk
from tarry.programs.beanstalk.server import BeanstalkSettings, endpoint_of
from tarry.programs.beanstalk.session import Session
from tarry.programs.service.settings import ServiceSettings
from tarry.verbs import tokens
from until import LONGEST_S, until
from warm import WarmProcess, WarmTarry

Connect = Callable[[], Bean]


def new_token(service: Beanstalk, *scopes: str, **limits: Any) -> str:
    text, id, record = tokens.create_token(os.urandom, scopes, **limits)
    engine = service.running.app.clients[service.namespace].engine
    service.running.run(engine.run(tokens.store_token(service.namespace, id, record)))
    return text


@pytest.fixture
def guarded(service: Beanstalk) -> Beanstalk:
    """One that requires tokens."""
    service.running.app.require_tokens(True)
    return service


def authorize(client: Bean, token: str) -> None:
    """A service looks twice a second whether there are new tokens."""
    until(lambda: client(b"auth " + token.encode()) == b"AUTHORIZED")


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_token_nothing_is_done(guarded: Beanstalk, connect: Connect) -> None:
    client = connect()
    assert client(b"put 0 0 60 3", b"tea") == b"UNAUTHORIZED"
    assert client(b"reserve") == b"UNAUTHORIZED"
    assert client(b"stats") == b"UNAUTHORIZED"
    assert client(b"auth tarry_0_nobody") == b"UNAUTHORIZED"
    assert client(b"auth nonsense") == b"UNAUTHORIZED"
    assert client(b"auth") == b"UNKNOWN_COMMAND"


def test_a_token_permits_its_scopes(guarded: Beanstalk, connect: Connect) -> None:
    producer, consumer = connect(), connect()
    authorize(producer, new_token(guarded, "produce"))
    authorize(consumer, new_token(guarded, "consume"))
    number = producer.put(b"tea")
    assert producer(b"reserve") == b"UNAUTHORIZED"
    assert consumer(b"put 0 0 60 3", b"tea") == b"UNAUTHORIZED"
    assert consumer(b"reserve") == b"RESERVED %d 3\r\ntea" % number
    for one in (producer, consumer):
        assert one(b"pause-tube default 60") == b"UNAUTHORIZED"
    admin = connect()
    authorize(admin, new_token(guarded, "admin"))
    assert admin(b"pause-tube default 60") == b"PAUSED"


@pytest.mark.parametrize("command", [b"reserve", b"reserve-with-timeout 60"])
def test_a_wait_ends_when_its_token_is_revoked(guarded: Beanstalk, connect: Connect, command: bytes) -> None:
    client, token = connect(), new_token(guarded, "consume")
    authorize(client, token)
    client.send(command + b"\r\n")
    until(lambda: any(one.waiting for one in guarded.server.sessions))
    revoke(guarded, token)
    assert client.reply() == b"UNAUTHORIZED\r\n"


def test_a_wait_without_a_token_ends_when_tokens_are_required(valkey_url: str, namespace: str) -> None:
    settings = ServiceSettings(namespaces=(namespace,), tokens_later=True)
    with speaking(valkey_url, namespace, service=settings) as made:
        client = made.connect()
        client.send(b"reserve\r\n")
        until(lambda: any(one.waiting for one in made.server.sessions))
        new_token(made, "consume")
        assert client.reply() == b"UNAUTHORIZED\r\n"


def test_a_command_that_waits_for_its_token_s_limit_is_refused_when_the_token_is_revoked(
    guarded: Beanstalk, connect: Connect
) -> None:
    class UsedUp:
        def take(self, *_: object) -> float:
            return 0.01

    client, token = connect(), new_token(guarded, "produce", calls=1)
    authorize(client, token)
    guarded.running.run(guarded.running.app.authorizer.authenticate(token)).calls = UsedUp()
    client.send(b"list-tube-used\r\n")
    until(lambda: any(one.is_busy for one in guarded.server._connections))
    revoke(guarded, token)
    assert client.reply() == b"UNAUTHORIZED\r\n"


def test_a_revoked_token_permits_nothing_more(
    guarded: Beanstalk, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a job comes before the next look at the tokens."""
    guarded.running.stop_looking(monkeypatch)
    client, token = connect(), new_token(guarded, "consume", "produce")
    authorize(client, token)
    client.send(b"reserve\r\n")
    until(lambda: any(one.waiting for one in guarded.server.sessions))
    revoke(guarded, token)
    other = connect()
    authorize(other, new_token(guarded, "consume", "produce"))
    until(lambda: other(b"list-tubes").startswith(b"OK") and not known(guarded, token))
    number = other.put(b"tea")
    assert client.reply() == b"UNAUTHORIZED\r\n"
    assert client(b"delete %d" % number) == b"UNAUTHORIZED"
    assert other(b"reserve") == b"RESERVED %d 3\r\ntea" % number


def revoke(service: Beanstalk, token: str) -> None:
    engine = service.running.app.clients[service.namespace].engine
    split = tokens.split_token(token)
    assert split is not None
    service.running.run(engine.run(tokens.delete_token(service.namespace, split[0])))


def known(service: Beanstalk, token: str) -> bool:
    async def found() -> bool:
        try:
            await service.running.app.authorizer.authenticate(token)
        except Exception:  # noqa: BLE001
            return False
        return True

    return bool(service.running.run(found()))


def test_a_token_s_limit_makes_the_connection_wait(guarded: Beanstalk, connect: Connect) -> None:
    client = connect()
    authorize(client, new_token(guarded, "produce", jobs=50.0))
    for _ in range(60):  # 50 at once, then one every 20 ms: none is refused
        client.put(b"tea")


def test_clients_without_tokens_work_in_the_namespace_that_is_theirs(valkey_url: str, namespace: str) -> None:
    settings = BeanstalkSettings(port=0, namespace=namespace)
    with speaking(valkey_url, namespace, settings) as service:
        service.running.app.require_tokens(True)
        assert service.connect().put(b"tea")


def test_the_first_token_closes_the_door(service: Beanstalk, connect: Connect) -> None:
    client = connect()
    assert client.put(b"tea")
    service.running.app.require_tokens(False, later=True)
    new_token(service, "admin")
    until(lambda: client(b"peek-ready") == b"UNAUTHORIZED")


def test_an_open_address_needs_tokens(service: Beanstalk) -> None:
    with pytest.raises(ServerUnfit, match="no token exists"):
        service.running.run(beanstalk.start(service.running.app, BeanstalkSettings(host="0.0.0.0", port=0)))


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:x", ":1", "127.0.0.1:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="beanstalk"):
        endpoint_of(text)


def test_addresses() -> None:
    assert endpoint_of("11300") == ("127.0.0.1", 11300)
    assert endpoint_of("[::1]:11300") == ("::1", 11300)
    assert endpoint_of("0.0.0.0:0") == ("0.0.0.0", 0)


# ── draining ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_service_that_drains_takes_nothing_new(service: Beanstalk, connect: Connect) -> None:
    idle, timed, worker = connect(), connect(), connect()
    number = worker.put(b"tea")
    assert worker(b"reserve").startswith(b"RESERVED")
    idle.send(b"reserve\r\n")
    timed.send(b"reserve-with-timeout 60\r\n")
    until(lambda: sum(one.waiting for one in service.server.sessions) == 2)
    service.running.call(service.running.app.drain)
    assert idle.reply() == b""
    assert timed.reply() == b"TIMED_OUT\r\n"
    assert worker(b"put 0 0 60 3", b"tea") == b"DRAINING"
    assert worker.stats(b"stats")["draining"] == "true"
    assert worker(b"delete %d" % number) == b"DELETED"


def test_what_is_reserved_when_it_stops_is_given_back(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beanstalk, "SETTLE_S", 0.0)
    with speaking(valkey_url, namespace) as service:
        worker = service.connect()
        number = worker.put(b"tea", ttr=3600)
        worker(b"reserve")
    with Client(valkey_url, namespace=namespace) as client:
        job = client.topic("default").get(str(number))
        assert job is not None
        assert (job.state, job.attempts) == ("ready", 0)


# ── metrics, memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_metrics_count_commands_and_connections(service: Beanstalk, connect: Connect) -> None:
    client = connect()
    client.put(b"tea")
    client(b"reserve")
    client(b"reserve-with-timeout 0")
    text = httpx.get(f"{service.running.url}/metrics").text
    for line in (
        'tarry_beanstalk_commands_total{command="put",reply="INSERTED"} 1.0',
        'tarry_beanstalk_commands_total{command="reserve-with-timeout",reply="TIMED_OUT"} 1.0',
        "tarry_beanstalk_connections 1.0",
        "tarry_beanstalk_reserved 1.0",
        "tarry_beanstalk_waiting 0.0",
    ):
        assert line in text


def test_a_full_tube_is_told_and_work_goes_on(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with speaking(running.url, "full") as service, Client(running.url, namespace="full") as admin:
        client = service.connect()
        number = client.put(b"tea")
        admin.topic("default").configure(max_pending=1)
        admin.topic("other").configure(max_pending=1)
        assert client(b"use other") == b"USING other"
        assert client.put(b"the first of its tube") > number
        assert client(b"put 0 0 60 3", b"tea") == b"OUT_OF_MEMORY"
        assert client(b"reserve") == b"RESERVED %d 3\r\ntea" % number


def test_a_full_memory_is_told_and_work_goes_on(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with speaking(running.url, "full") as service:
        client = service.connect()
        number = client.put(b"tea")
        running.ask("CONFIG", "SET", "maxmemory", "1")
        assert client(b"put 0 0 60 3", b"tea") == b"OUT_OF_MEMORY"
        assert client(b"reserve") == b"RESERVED %d 3\r\ntea" % number
        assert client(b"delete %d" % number) == b"DELETED"


def test_a_server_that_is_gone_is_an_internal_error(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with speaking(running.url, "gone") as service:
        client = service.connect()
        client.put(b"tea")
        running.stop()
        assert client(b"put 0 0 60 3", b"tea") == b"INTERNAL_ERROR"
        assert client(b"list-tube-used") == b"USING default"


# ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def process(warm: WarmTarry, url: str, log: Path) -> Iterator[tuple[WarmProcess, int]]:
    """`tarry serve --beanstalk` itself, and its port."""
    words = ["--url", url, "serve", "--port", "0", "--beanstalk", "127.0.0.1:0"]
    with log.open("wb") as out:
        child = warm.start(words, out, {}, log.parent)
    try:
        found = until(lambda: re.search(r"clients at 127.0.0.1:(\d+), namespace default\n", log.read_text()))
        yield child, int(found[1])
    finally:
        child.kill()
        child.wait(LONGEST_S)


@pytest.mark.slow
def test_sigterm_gives_jobs_back_and_kill_leaves_them_to_their_time_to_run(
    own_server: Callable[..., ServerProcess], tmp_path: Path, tarry_command: WarmTarry
) -> None:
    url = own_server().url
    with process(tarry_command, url, tmp_path / "1") as (child, port), Bean(port) as worker:
        worker.put(b"tea", ttr=3600)
        worker.put(b"coffee", ttr=1)
        worker(b"reserve")
        worker.close()
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONGEST_S) == 0
    with process(tarry_command, url, tmp_path / "2") as (child, port), Bean(port) as worker:
        assert worker(b"reserve").endswith(b"\r\ntea")
        assert worker(b"reserve").endswith(b"\r\ncoffee")
        child.kill()
    with process(tarry_command, url, tmp_path / "3") as (child, port), Bean(port) as worker:
        assert worker(b"reserve").endswith(b"\r\ncoffee")


def test_an_error_while_a_closed_connection_gives_back_its_jobs_is_noted(
    service: Beanstalk, connect: Callable[[], Bean], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Session) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(Session, "give_back", fail)
    bean = connect()
    bean.put(b"x")
    assert bean(b"reserve").startswith(b"RESERVED")
    bean.socket.close()
    bean.close()
    until(lambda: failures.counts == {"tarry beanstalkd": 1})
