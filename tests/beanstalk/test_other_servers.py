"""beanstalkd's clients of a service whose jobs are on a Cluster, or on a master that Sentinels watch; partitioned tubes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beanstalk.conftest import Beanstalk, speaking

PLACES = [pytest.param(place, marks=pytest.mark.slow) for place in ("cluster of valkey", "sentinels of valkey")]
pytestmark = pytest.mark.otherserver


@pytest.fixture(params=PLACES)
def there(request: pytest.FixtureRequest, constellation: Callable[[str], Any], namespace: str) -> Iterator[Beanstalk]:
    with speaking(constellation(request.param).url, namespace) as made:
        yield made


def test_a_job_s_life_elsewhere(there: Beanstalk) -> None:
    client, other = there.connect(), there.connect()
    client(b"use mails")
    first, later = client.put(b"tea"), client.put(b"milk", delay="100")
    other.send(b"watch mails\r\nwatch more\r\nreserve\r\n")
    assert [other.reply() for _ in range(3)][2] == b"RESERVED %d 3\r\ntea\r\n" % first
    assert other(b"touch %d" % first) == b"TOUCHED"
    assert other(b"release %d 5 0" % first) == b"RELEASED"
    assert client.stats(b"stats-job %d" % first)["pri"] == "5"
    assert other(b"reserve-job %d" % later) == b"RESERVED %d 4\r\nmilk" % later
    assert other(b"bury %d 7" % later) == b"BURIED"
    assert client(b"peek-buried") == b"FOUND %d 4\r\nmilk" % later
    assert client(b"kick 10") == b"KICKED 1"
    assert client(b"delete %d" % later) == b"DELETED"
    assert other(b"reserve") == b"RESERVED %d 3\r\ntea" % first
    other.close()
    client(b"watch mails")
    assert client(b"reserve") == b"RESERVED %d 3\r\ntea" % first
    client.send(b"delete %d\r\nlist-tubes\r\nreserve\r\n" % first)
    assert client.reply() == b"DELETED\r\n"
    assert b"- mails\n" in client.reply()
    producer = there.connect()
    producer(b"use mails")
    number = producer.put(b"a waiting one", delay="0.1")
    assert client.reply() == b"RESERVED %d 13\r\na waiting one\r\n" % number


def test_many_tubes_are_watched_elsewhere(there: Beanstalk) -> None:
    client, producer = there.connect(), there.connect()
    for n in range(30):
        assert client(b"watch t%d" % n).startswith(b"WATCHING")
    for n in range(30):
        client.send(b"reserve\r\n")
        producer(b"use t%d" % n)
        number = producer.put(b"tea")
        assert client.reply() == b"RESERVED %d 3\r\ntea\r\n" % number
        assert client(b"delete %d" % number) == b"DELETED"


def test_a_tube_may_have_partitions(constellation: Callable[[str], Any], namespace: str) -> None:
    with speaking(constellation("cluster of valkey").url, namespace) as made:
        made.running.run(_partition(made, "mails"))
        client = made.connect()
        client(b"use mails")
        client(b"watch mails")
        put = [client.put(b"%d" % n) for n in range(20)]
        for number in put[:5]:
            assert client(b"reserve-job %d" % number).startswith(b"RESERVED %d" % number)
            assert client(b"bury %d 1" % number) == b"BURIED"
        assert client(b"kick 10") == b"KICKED 5"
        taken = []
        while (reply := client(b"reserve-with-timeout 0")) != b"TIMED_OUT":
            taken.append(int(reply.split()[1]))
        assert sorted(taken) == put
        client.close()
        other = made.connect()
        other(b"watch mails")
        for _ in put:
            number = int(other(b"reserve").split()[1])
            assert other(b"delete %d" % number) == b"DELETED"


async def _partition(made: Beanstalk, name: str) -> None:
    topic = made.running.app.clients.partitioned(made.namespace, name, 4)
    await topic.stats()
