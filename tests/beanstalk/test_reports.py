"""What is reported, and how: names in quotes, a version that can be compared, tubes in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable

from beanstalk.beans import Bean, beanstalkd
from beanstalk.conftest import Beanstalk, speaking
from tarry import __version__
from tarry.programs.beanstalk import tube_order
from tarry.programs.beanstalk.tube_order import TubeOrder
from until import until

Connect = Callable[[], Bean]


def tubes(client: Bean) -> list[str]:
    return [line.removeprefix("- ") for line in client(b"list-tubes").decode().splitlines()[2:] if line]


def test_the_version_can_be_compared(connect: Connect) -> None:
    found = connect().stats(b"stats")
    assert tuple(map(int, found["version"].strip('"').split("."))) >= (1, 13)
    assert found["tarry-version"] == f'"{__version__}"'


def test_names_are_quoted_as_in_1_13(connect: Connect) -> None:
    client = connect()
    client(b"use 1e5")
    number = client.put(b"tea")
    assert client.stats(b"stats-tube 1e5")["name"] == '"1e5"'
    assert client.stats(b"stats-job %d" % number)["tube"] == '"1e5"'
    found = client.stats(b"stats")
    assert all(found[name].startswith('"') for name in ("version", "hostname", "os", "platform"))


def test_tubes_are_listed_in_the_order_of_making(connect: Connect) -> None:
    """Each step is done with beanstalkd, too. No tube ends but the last one: beanstalkd moves the last into the place of another."""
    steps = [b"watch w", b"use z", b"put 1 0 60 1\r\nx", b"watch a", b"use d", b"watch b", b"ignore b", b"watch b"]
    with beanstalkd() as port, Bean(port) as theirs:
        ours = connect()
        for step in steps:
            assert theirs(step).split()[0] == ours(step).split()[0]
            assert tubes(ours) == tubes(theirs)
        assert tubes(ours) == ["default", "w", "z", "a", "d", "b"]


def test_a_tube_ends_with_its_last_connection_unless_it_has_jobs(service: Beanstalk, connect: Connect) -> None:
    gone, other = connect(), connect()
    gone.send(b"watch empty\r\nuse full\r\nput 1 0 60 1\r\nx\r\nreserve-with-timeout 0\r\nquit\r\n")
    assert [gone.reply().split()[0] for _ in range(4)] == [b"WATCHING", b"USING", b"INSERTED", b"TIMED_OUT"]
    assert gone.reply() == b""
    until(lambda: len(service.server._connections) == 1)
    other(b"watch later")
    assert tubes(other) == ["default", "full", "later"]


def test_tubes_that_were_there_before_come_by_name(service: Beanstalk, connect: Connect) -> None:
    client = connect()
    for name in (b"z", b"a", b"m"):
        client(b"use " + name)
        client.put(b"tea")
    with speaking(service.url, service.namespace) as second:
        later = second.connect()
        later(b"watch b")
        assert tubes(later) == ["default", "b", "a", "m", "z"]
        later(b"use c")
        assert tubes(later) == ["default", "b", "a", "m", "z", "c"]


def test_tubes_that_nobody_refers_to_are_remembered_up_to_a_bound() -> None:
    order = TubeOrder("default")
    for n in range(tube_order.MOST_LEFT + 10):
        order.refer(f"reply-{n}")
        order.fill(f"reply-{n}")
        order.leave(f"reply-{n}")
        order.refer(f"empty-{n}")
        order.leave(f"empty-{n}")
    assert len(order._left) == tube_order.MOST_LEFT
    assert not order._filled
    assert order.referred == ["default"]
    assert order.sort(["default"]) == ["default"]
    assert not order._left
