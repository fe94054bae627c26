"""200,000 inputs made from the table of raw inputs by cutting, doubling and joining: two connections through HAProxy and two without.

Each client has a mark that no other has had. It gets only answers with its own mark, in the order of its requests, or its connection is
closed. A connection without a proxy is read by h11, too (``strict_reader.py``): the service answers the requests that h11 finds in the bytes
that were sent, or the first ones of them, and no other.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from service.echo_service import Echo, echo_service, echoes, proxy
from service.raw_inputs import INPUTS, NEXT
from service.strict_reader import requests_in
from until import LONGEST_S

SEEDS, INPUTS_PER_SEED = 20, 10_000
PARTS = [one.sent for one in INPUTS] + [one.sent for one in INPUTS if not one.is_last] * 4 + [NEXT] * 20
CLIENTS = "127.0.0.2"
"""Their address; HAProxy's is 127.0.0.1."""
MARK = re.compile(r"[A-D][01]\d{6}")
"""The client of a round, the seed, the round. The table itself has nines only, which may come to stand behind a letter."""


def draw(random: Random) -> bytes:
    """An input: some of the table, joined, of which pieces are cut out, doubled or moved; and at times a byte is another."""
    stream = b"".join(random.choices(PARTS, k=random.randint(1, 5)))
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        begin = random.randrange(len(stream) + 1)
        end = min(len(stream), begin + random.choice((1, 2, 4, 16, 64, 256)))
        piece, rest = stream[begin:end], stream[:begin] + stream[end:]
        at = random.randrange(len(rest) + 1)
        stream = random.choice((rest, stream[:end] + piece + stream[end:], rest[:at] + piece + rest[at:]))
    return stream + NEXT * random.randint(0, 1)


def cut(random: Random, stream: bytes) -> list[bytes]:
    """The same in some pieces."""
    places = sorted(random.sample(range(len(stream) + 1), min(random.choice((0, 0, 1, 3)), len(stream))))
    return [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]


class Sent:
    """What a client sent, and what it got until its connection was closed."""

    def __init__(self, mark: str, stream: bytes) -> None:
        self.mark, self.stream = mark, stream.replace(b"M", mark.encode())
        self.said, self.place = b"", ("", 0)

    async def go(self, random: Random, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(CLIENTS, 0))
        self.place = writer.get_extra_info("sockname")
        try:
            for piece in cut(random, self.stream):
                writer.write(piece)
                await asyncio.sleep(0)
            writer.write_eof()
            while some := await reader.read(65536):
                self.said += some
        except OSError:  # closed with unread input
            pass
        finally:
            writer.transport.abort()

    @property
    def answered(self) -> list[list[str]]:
        return echoes(self.said)


def judge(sent: Sent, app: Echo, *, is_direct: bool) -> str:
    """Asserts what holds for each connection. Answers what became of it."""
    assert {*MARK.findall(sent.said.decode("latin-1"))} <= {sent.mark}, sent.said
    if not is_direct:
        return "answered" if sent.answered else "not answered"
    read, counted = requests_in(sent.stream), app.by_client.pop(sent.place, [])
    assert len(counted) <= len(read), (sent.stream, counted, read)
    for (method, path, body), one in zip(counted, read, strict=False):
        assert (method, path) == one[:2], (sent.stream, counted, read)
        assert body == one[2] or path.endswith("/early"), (sent.stream, counted, read)
    paths = [path for _, path, _ in counted]
    assert [path for path, _ in sent.answered] == paths[: len(sent.answered)], (sent.stream, sent.said)
    return "first" if any(body is not None for _, _, body in read[len(counted) :]) else "all"


async def play(seed: int, direct: int, proxied: int, app: Echo) -> Counter[str]:
    random, became = Random(seed), Counter[str]()
    for number in range(INPUTS_PER_SEED // 4):
        four = [Sent(f"{name}{seed:02}{number:05}", draw(random)) for name in "ABCD"]
        ports = (direct, proxied, direct, proxied)
        async with asyncio.timeout(LONGEST_S):
            await asyncio.gather(*(one.go(random, port) for one, port in zip(four, ports, strict=True)))
        for one, port in zip(four, ports, strict=True):
            became[judge(one, app, is_direct=port == direct)] += 1
    return became


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_inputs_from_the_table(seed: int, tmp_path: Path) -> None:
    loop = ("asyncio", "uvloop")[seed % 2]
    with echo_service(loop) as (port, app), proxy("haproxy", tmp_path, port) as proxied:
        became = asyncio.run(play(seed, port, proxied, app))
    assert became.total() == INPUTS_PER_SEED
    assert min(became["all"], became["answered"]) > INPUTS_PER_SEED // 10, became
