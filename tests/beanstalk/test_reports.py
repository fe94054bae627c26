"""What is reported, and how: names in quotes, and a version that can be compared."""

from __future__ import annotations

from collections.abc import Callable

from beanstalk.beans import Bean
from tarry import __version__

Connect = Callable[[], Bean]


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
