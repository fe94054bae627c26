"""Waits, the last second of a time to run, and connections that close."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from beanstalk.beans import Bean
from beanstalk.conftest import Beanstalk, speaking
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.beanstalk import session
from tarry.programs.beanstalk.tubes import Tubes
from until import until

Connect = Callable[[], Bean]


def waits(service: Beanstalk) -> Callable[[], bool]:
    """Whether a connection waits for a job."""
    return lambda: any(one.waiting for one in service.server.sessions)


def test_a_waiting_consumer_gets_a_job_when_it_is_put(service: Beanstalk, connect: Connect) -> None:
    consumer, producer = connect(), connect()
    consumer.send(b"reserve\r\n")
    until(waits(service))
    number = producer.put(b"tea")
    assert consumer.reply() == b"RESERVED %d 3\r\ntea\r\n" % number


def test_a_fraction_of_a_second_is_a_delay(connect: Connect) -> None:
    consumer, producer = connect(), connect()
    number = producer.put(b"tea", delay="0.25")
    assert producer.stats(b"stats-job %d" % number)["delay"] == "0.25"
    assert consumer(b"reserve") == b"RESERVED %d 3\r\ntea" % number
    assert consumer(b"release %d 1 0.005" % number) == b"RELEASED"
    assert consumer(b"reserve") == b"RESERVED %d 3\r\ntea" % number


def test_a_wait_ends_with_its_timeout(connect: Connect) -> None:
    assert connect()(b"reserve-with-timeout 1") == b"TIMED_OUT"


def test_a_wait_ends_in_the_last_second_of_a_time_to_run(connect: Connect) -> None:
    consumer = connect()
    number = consumer.put(b"tea", ttr=2)
    consumer(b"reserve")
    assert consumer(b"reserve") == b"DEADLINE_SOON"
    assert consumer(b"touch %d" % number) == b"TOUCHED"
    assert consumer(b"reserve-with-timeout 0") == b"TIMED_OUT"


def test_a_job_that_takes_too_long_goes_to_another_consumer(connect: Connect) -> None:
    slow, other = connect(), connect()
    number = slow.put(b"tea", ttr=1)
    slow(b"reserve")
    assert other(b"reserve") == b"RESERVED %d 3\r\ntea" % number
    assert slow(b"delete %d" % number) == b"NOT_FOUND"
    assert slow(b"touch %d" % number) == b"NOT_FOUND"
    stats = other.stats(b"stats-job %d" % number)
    assert (stats["reserves"], stats["timeouts"], stats["state"]) == ("2", "1", "reserved")


def test_twenty_failures_do_not_set_a_job_aside(connect: Connect) -> None:
    consumer = connect()
    number = consumer.put(b"tea")
    for _ in range(25):
        assert consumer(b"reserve").startswith(b"RESERVED")
        assert consumer(b"release %d 1 0" % number) == b"RELEASED"
    stats = consumer.stats(b"stats-job %d" % number)
    assert (stats["state"], stats["reserves"], stats["releases"]) == ("ready", "25", "25")


def test_a_job_that_another_client_added_with_a_key_obeys_its_limit(
    connect: Connect, valkey_url: str, namespace: str
) -> None:
    consumer = connect()
    with tarry.Client(valkey_url, namespace=namespace) as client:
        tube = client.topic("default")
        tube.configure(key_concurrency=1)
        tube.add_many([b"one", b"two"], key="a")
        first = consumer(b"reserve")
        assert first.endswith(b"one")
        assert consumer(b"reserve-with-timeout 0") == b"TIMED_OUT"
        assert consumer(b"release %s 5 0" % first.split()[1]) == b"RELEASED"
        assert consumer(b"reserve").endswith(b"one"), "its priority is the key's highest now"
        assert consumer(b"reserve-with-timeout 0") == b"TIMED_OUT"
        assert tube.check().ok


def test_a_closed_connection_gives_its_jobs_back_in_their_order(service: Beanstalk, connect: Connect) -> None:
    gone, other = connect(), connect()
    numbers = [gone.put(b"tea", ttr=3600) for _ in range(3)]
    for _ in numbers:
        gone(b"reserve")
    gone.close()
    assert [other(b"reserve").split()[1] for _ in numbers] == [b"%d" % number for number in numbers]


def test_a_connection_that_is_reset_while_it_waits_loses_no_job(service: Beanstalk, connect: Connect) -> None:
    gone, other = connect(), connect()
    gone.send(b"reserve\r\n")
    until(waits(service))
    gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # RST
    gone.close()
    until(lambda: not waits(service)())
    number = other.put(b"tea")
    assert other(b"reserve") == b"RESERVED %d 3\r\ntea" % number


def test_a_half_closed_connection_gets_its_replies(connect: Connect) -> None:
    client = connect()
    client.send(b"use a\r\nwatch a\r\nput 0 0 60 1\r\nx\r\nreserve\r\nreserve\r\n")
    client.socket.shutdown(socket.SHUT_WR)
    words = [client.reply().split()[0] for _ in range(5)]
    assert words == [b"USING", b"WATCHING", b"INSERTED", b"RESERVED", b"TIMED_OUT"]
    assert client.reply() == b""


def test_pipelined_commands_are_answered_in_order(connect: Connect) -> None:
    client = connect()
    client.send(b"".join(b"put 0 0 60 %d\r\n%d\r\n" % (len(str(n)), n) for n in range(500)) + b"reserve\r\n" * 500)
    numbers = [client.reply().split()[1] for _ in range(500)]
    assert [client.reply() for _ in range(500)] == [
        b"RESERVED %s %d\r\n%d\r\n" % (number, len(str(n)), n) for n, number in enumerate(numbers)
    ]


def test_puts_and_deletes_that_arrive_together_are_sent_to_the_server_together(
    own_server: Callable[..., ServerProcess],
) -> None:
    server, count = own_server(), 60
    with speaking(server.url, "together") as there:
        client = there.connect()
        client.put(b"tea")
        reads = reads_of(server)
        client.send(b"put 0 0 60 3\r\ntea\r\n" * count)
        numbers = [client.reply().split()[1] for _ in range(count)]
        assert reads_of(server) - reads < count / 2
        client(b"reserve")
        reads = reads_of(server)
        client.send(b"".join(b"delete %s\r\n" % number for number in numbers))
        assert [client.reply() for _ in range(count)] == [b"DELETED\r\n"] * count
        assert reads_of(server) - reads < 3 * count / 2  # each is looked up, and then popped and finished


def reads_of(server: ServerProcess) -> int:
    """How often the server has read from a connection so far."""
    text: str = server.ask("INFO", "stats").decode()
    return int(text.partition("total_reads_processed:")[2].split(maxsplit=1)[0])


def test_two_processes_serve_one_namespace(service: Beanstalk, connect: Connect) -> None:
    with speaking(service.url, service.namespace) as second:
        here, there = connect(), second.connect()
        number = here.put(b"tea")
        assert there(b"peek %d" % number) == b"FOUND %d 3\r\ntea" % number
        there.send(b"watch mails\r\nreserve\r\n")
        assert there.reply() == b"WATCHING 2\r\n"
        assert there.reply() == b"RESERVED %d 3\r\ntea\r\n" % number
        assert here(b"delete %d" % number) == b"NOT_FOUND"
        assert there(b"bury %d 5" % number) == b"BURIED"
        assert here(b"kick-job %d" % number) == b"KICKED"
        here(b"use mails")
        later = here.put(b"new tube")  # the other process has never seen it
        assert there(b"delete %d" % later) == b"DELETED"
        assert here(b"delete %d" % number) == b"DELETED"


def test_many_consumers_share_many_jobs(service: Beanstalk, connect: Connect) -> None:
    taken: list[bytes] = []
    producer = connect()

    def consume(client: Bean) -> None:
        while (reply := client(b"reserve-with-timeout 1")).startswith(b"RESERVED"):
            taken.append(reply.split()[1])
            assert client(b"delete %s" % reply.split()[1]) == b"DELETED"

    threads = [threading.Thread(target=consume, args=(connect(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    put = [b"%d" % producer.put(b"tea", delay=str(n % 3 / 20)) for n in range(200)]
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(put)


def test_a_job_of_another_program_has_a_number(service: Beanstalk, connect: Connect) -> None:
    async def add(**options: Any) -> None:
        await service.running.app.clients[service.namespace].topic("default").add({"order": 7}, id="order/7", **options)

    client = connect()
    service.running.run(add())
    word, number, _ = client(b"peek-ready").split(None, 2)
    assert word == b"FOUND"
    assert client(b"reserve") == b'RESERVED %s 11\r\n{"order":7}' % number
    assert client(b"release %s 3 60" % number) == b"RELEASED"
    assert client.stats(b"stats-job %s" % number)["pri"] == "3"
    assert client(b"delete %s" % number) == b"DELETED"


def test_a_number_that_is_taken_is_not_given_again(service: Beanstalk, connect: Connect) -> None:
    from tarry.core.requests import Command
    from tarry.values.keys import numbers_key

    client = connect()
    first = client.put(b"tea")
    key = numbers_key(service.namespace)
    engine = service.running.app.clients[service.namespace].engine
    service.running.run(engine.run(Command((b"SET", key, b"0"), bool)))  # as after a fail-over that lost the last step
    with speaking(service.url, service.namespace) as second:
        later = second.connect()
        assert later.put(b"coffee") != first
    assert client(b"peek %d" % first) == b"FOUND %d 3\r\ntea" % first


def test_a_connection_that_closes_in_the_moment_of_a_pop_gives_the_job_back(
    service: Beanstalk, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, other = connect(), connect()
    number = other.put(b"tea", ttr=3600)

    pop = Tubes.pop

    async def pop_and_close(*given: Any) -> Any:
        jobs = await pop(*given)
        (connection,) = [one for one in service.server._connections if one.is_busy]
        asyncio.get_running_loop().call_soon(connection.connection_lost, None)  # before the connection has the job
        connection.transport.abort()
        return jobs

    monkeypatch.setattr(Tubes, "pop", pop_and_close)
    gone.send(b"reserve\r\n")
    until(lambda: len(service.server._connections) == 1)
    monkeypatch.undo()
    assert other(b"reserve") == b"RESERVED %d 3\r\ntea" % number


@pytest.mark.parametrize("state", ["delayed", "buried"])
def test_a_delete_that_is_interrupted_hands_out_no_job(
    service: Beanstalk, connect: Connect, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    async def killed(*_: object) -> None:
        raise ConnectionError("as if the service were killed in the middle")

    client = connect()
    number = client.put(b"tea", delay="100" if state == "delayed" else "0", ttr=1)
    if state == "buried":
        assert client(b"reserve").startswith(b"RESERVED")
        assert client(b"bury %d 1" % number) == b"BURIED"
    monkeypatch.setattr(session, "_finish", killed)
    assert client(b"delete %d" % number) in (b"DELETED", b"INTERNAL_ERROR")
    monkeypatch.undo()
    assert connect()(b"reserve-with-timeout 2") == b"TIMED_OUT", "it is neither due nor kicked"
