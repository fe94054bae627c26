"""A service whose stderr nobody reads answers and ends as any other."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from servers import free_ports
from tarry.programs.serving import stderr
from tarry.programs.serving.stderr import MOST_WAITING, LineWriter, LogHandler
from until import LONGEST_S, until
from warm import WarmTarry

TOLD = "Lines of this log that were dropped, because nobody read stderr: 3.\n"


class Pipe:
    """A place to write to, which is blocked at first."""

    def __init__(self) -> None:
        self.lines = list[str]()
        self.is_reached, self.is_read = threading.Event(), threading.Event()

    def write(self, text: str) -> None:
        self.is_reached.set()
        self.is_read.wait(LONGEST_S)
        self.lines.append(text)


def test_lines_are_dropped_and_counted_while_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe()
    writer, logger = LineWriter(pipe.write), logging.getLogger("tarry.stderr-test")
    handler = LogHandler(writer)
    logger.addHandler(handler)
    logger.propagate = False
    monkeypatch.setattr(stderr, "logger", logger)
    try:
        logger.warning("first")
        assert pipe.is_reached.wait(LONGEST_S)
        for number in range(MOST_WAITING + 3):
            logger.warning("line %d", number)
        pipe.is_read.set()
        until(lambda: len(pipe.lines) == MOST_WAITING + 2)
    finally:
        logger.removeHandler(handler)
    assert pipe.lines[:2] == ["first\n", "line 0\n"]
    assert pipe.lines[-2:] == [f"line {MOST_WAITING - 1}\n", TOLD]


def test_a_writer_that_fails_goes_on() -> None:
    written = list[str]()

    def write(text: str) -> None:
        if not written:
            written.append("lost")
            raise BrokenPipeError
        written.append(text)

    writer = LineWriter(write)
    writer.put("a")
    writer.put("b")
    until(lambda: written == ["lost", "b\n"])
    writer.flush()


@pytest.mark.slow
def test_a_service_with_a_full_pipe_for_stderr_answers_and_ends(
    valkey_url: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writes, b"x" * 4096)
    os.set_blocking(writes, True)
    with os.fdopen(writes, "wb") as pipe:
        child = tarry_command.start(["serve", "--port", str(port)], pipe, {"TARRY_URL": valkey_url}, tmp_path)
    try:
        until(lambda: answers(port) or child.poll() is not None)
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONGEST_S) == 0
    finally:
        child.kill()
        child.wait()
        os.close(reads)


def answers(port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=LONGEST_S).status_code == 200
    return False
