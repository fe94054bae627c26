"""What the protocol says, as a table of cases (protocol_cases.txt): each holds for tarry, and for beanstalkd itself.

beanstalkd's own black-box tests (testserv.c) cover the same ground. Debian's archive has no more the source of the installed version, 1.12, so
the cases are written from the protocol's text, under the names of those tests. What 1.13 does otherwise, names in quotes, is taken from it by
hand. Tests of beanstalkd that are not here:

    binlog_…                    tarry has no write-ahead log of its own: its jobs are on the server
    job_size_max_plus_1         a job of 1 GiB; tarry takes 1 MiB at most. `too_big` sets a smaller limit
    multi_tube                  the order between watched tubes, a documented difference
    put_in_drain                sends a signal to the test's own process; tests/beanstalk/test_serving.py drains a service
    peek_ok_unix, unix_…        beanstalkd's Unix socket, which tarry does not have
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from beanstalk.beans import Bean, as_1_13, beanstalkd
from beanstalk.conftest import speaking
from tarry.programs.beanstalk.server import BeanstalkSettings

pytestmark = pytest.mark.long
TABLE = Path(__file__).with_name("protocol_cases.txt")
HEADING = re.compile(r"\[(\w+)\](?: size (\d+))?")
Start = Callable[[int | None], AbstractContextManager[int]]


@dataclass
class Case:
    """A case: its steps, and how large a job may be."""

    name: str
    size: int | None
    steps: list[str] = field(default_factory=list)


def cases() -> Iterator[Case]:
    case: Case | None = None
    for line in TABLE.read_text().splitlines():
        if heading := HEADING.fullmatch(line):
            if case is not None:
                yield case
            case = Case(heading[1], int(heading[2]) if heading[2] else None)
        elif case is not None and line:
            case.steps.append(line)
    assert case is not None
    yield case


class Play:
    """Performs the steps of a case with one server, and checks the replies."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: dict[str, Bean] = {}
        self._numbers: list[bytes] = []
        self._reply = b""

    def step(self, step: str) -> None:
        if step.startswith("= "):
            self._expect(step[2:])
            return
        if step.startswith("~ "):
            name, _, value = step[2:].partition(": ")
            found = dict(line.split(": ", 1) for line in self._reply.decode().splitlines() if ": " in line)
            assert re.fullmatch(self._numbered(value.encode()).decode(), found[name]), f"{step}, not {found[name]}"
            return
        name, sign, text = step[0], step[1], step[2:].lstrip()
        if sign == ".":
            self._connections.pop(name).close()
            return
        if name not in self._connections:
            self._connections[name] = Bean(self._port)
        if text:
            head, bar, body = self._numbered(text.encode().decode("unicode_escape").encode()).partition(b"|")
            self._connections[name].send(head + b"\r\n" + (body + b"\r\n" if bar else b""))
        if sign != ">":
            self._reply = as_1_13(self._connections[name].reply())

    def _expect(self, text: str) -> None:
        if text.startswith("INSERTED"):
            word, number = self._reply.split()
            assert word == b"INSERTED", self._reply
            self._numbers.append(number)
            assert text == f"INSERTED #{len(self._numbers)}"
            return
        head, bar, body = self._numbered(text.encode().decode("unicode_escape").encode()).partition(b"|")
        assert self._reply == head + b"\r\n" + (body + b"\r\n" if bar else b"")

    def _numbered(self, text: bytes) -> bytes:
        return re.sub(rb"#(\d+)", lambda sign: self._numbers[int(sign[1]) - 1], text)

    def close(self) -> None:
        for one in self._connections.values():
            one.close()


@pytest.fixture(params=["tarry", "beanstalkd"])
def start(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Start:
    """Starts a server that has no jobs; the port."""

    @contextmanager
    def tarry(size: int | None) -> Iterator[int]:
        settings = BeanstalkSettings(port=0) if size is None else BeanstalkSettings(port=0, max_job_size=size)
        with speaking(valkey_url, namespace, settings) as service:
            yield service.port

    def theirs(size: int | None) -> AbstractContextManager[int]:
        return beanstalkd(*([] if size is None else ["-z", str(size)]))

    return tarry if request.param == "tarry" else theirs


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_case_of_the_protocol(start: Start, case: Case) -> None:
    with start(case.size) as port:
        play = Play(port)
        try:
            for number, step in enumerate(case.steps, 1):
                try:
                    play.step(step)
                except AssertionError as fault:
                    fault.add_note(f"step {number} of {case.name}: {step}")
                    raise
        finally:
            play.close()
