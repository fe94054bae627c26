"""The same commands to tarry and to beanstalkd itself, in the same run: the replies are the same but for numbers and times."""

from __future__ import annotations

import re
from pathlib import Path

from beanstalk.beans import Bean, as_1_13, beanstalkd
from beanstalk.conftest import Beanstalk

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
TIMES = re.compile(rb"^(age|time-left|pause-time-left|rusage-.time|uptime): .*$", re.M)


class Story:
    """Performs the transcript with one server. Numbers of jobs become #1, #2, …, in the order in which they were put."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections: dict[str, Bean] = {}
        self.numbers: dict[bytes, bytes] = {}

    def perform(self, step: str) -> bytes:
        name, _, text = step.partition(" ")
        if text == "<close>":
            self.connections.pop(name).close()
            return b""
        if name not in self.connections:
            self.connections[name] = Bean(self.port)
        data = text.encode().decode("unicode_escape").encode("latin-1")
        for number, sign in self.numbers.items():
            data = re.sub(sign + rb"(?!\d)", number, data)
        line, _, body = data.partition(b"|")
        return self.named(self.connections[name](line, body if data.count(b"|") else None))

    def named(self, reply: bytes) -> bytes:
        inserted = re.fullmatch(rb"INSERTED (\d+)", reply)
        if inserted:
            self.numbers[inserted[1]] = b"#%d" % (len(self.numbers) + 1)
        head, separator, rest = reply.partition(b"\r\n")
        for number, sign in self.numbers.items():
            head = re.sub(rb"^(INSERTED|RESERVED|FOUND) %s\b" % number, rb"\1 " + sign, head)
            rest = re.sub(rb"^id: %s$" % number, b"id: " + sign, rest, flags=re.M)
        if head.startswith(b"OK"):
            head, rest = b"OK", TIMES.sub(rb"\1: T", rest)
        return head + separator + rest

    def close(self) -> None:
        for one in self.connections.values():
            one.close()


def test_the_same_transcript_gives_the_same_replies(service: Beanstalk) -> None:
    steps = [line for line in TRANSCRIPT.read_text().splitlines() if line and not line.startswith("#")]
    assert len(steps) >= 60
    with beanstalkd() as port:
        theirs, ours = Story(port), Story(service.port)
        differences = []
        for step in steps:
            expected, found = as_1_13(theirs.perform(step)), ours.perform(step)
            if expected != found:
                differences.append((step, expected, found))
        theirs.close()
        ours.close()
    assert not differences, "\n".join(map(str, differences))
