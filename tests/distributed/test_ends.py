"""Ends of jobs, read by one client after the other, and of many partitions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.jobs import ends
from tarry.verbs.jobs.end_values import Position, UnknownEnds

TURNS = 10
Told = tuple[str, str] | tuple[datetime, datetime]
"""The id and the state of an end, or since when and until when ends are not known."""


def read(url: str, namespace: str, since: str, limit: int) -> list[Told]:
    """Some ends, as a reader gets them that is cut off then; all that another one knows of it is the position."""
    with tarry.Client(url, namespace=namespace) as client:
        found = islice(client.topic("many").ends(since=since, wait=0), limit)
        return [(one.id, one.state) if isinstance(one, tarry.End) else (one.since, one.until) for one in found]


def end_some(topic: tarry.Topic[Any], ids: range) -> Iterator[tuple[str, int, str]]:
    """Ends of jobs that were added, popped and settled: id, receipt and state."""
    topic.add_many([tarry.NewJob(None, id=f"job-{n}") for n in ids])
    jobs = topic.pop_many(len(ids))
    dead = len(ids) // 5
    topic.finish_many(jobs[dead:])
    topic.bury_many(jobs[:dead], reason="spilt")
    for at, job in enumerate(jobs):
        yield job.id, job.receipt, "dead" if at < dead else "finished"


@pytest.mark.slow
@pytest.mark.parametrize("of_a_turn", [400, pytest.param(1000, marks=pytest.mark.long)])
def test_thousands_of_ends_come_once_each_or_are_said_to_be_unknown(
    valkey_url: str, namespace: str, of_a_turn: int
) -> None:
    """Ten reconnects at random places, kicks and purges between."""
    drawn, expected, gone = random.Random(46), dict[str, str](), dict[str, datetime]()
    received: list[Told] = []
    with tarry.Client(valkey_url, namespace=namespace) as client:
        topic = client.topic("many")
        topic.configure(keep_finished="1h")
        begin = topic.ends(wait=0)
        assert list(begin) == []
        position = begin.position or ""

        def note(ended: Iterator[tuple[str, int, str]]) -> None:
            expected.update({f"{id}-{receipt}": state for id, receipt, state in ended})

        def read_some(limit: int) -> str:
            found = read(valkey_url, namespace, position, limit)
            received.extend(found)
            return next((str(one) for one, _ in reversed(found) if isinstance(one, str)), position)

        for turn in range(TURNS):
            for part in range(4):
                first = turn * of_a_turn + part * of_a_turn // 4
                note(end_some(topic, range(first, first + of_a_turn // 4)))
            if turn % 3 == 1:
                dead = topic.list("dead", limit=1000).jobs
                for job in (kicked := drawn.sample(dead, of_a_turn // 20)):
                    assert job.died is not None
                    gone[f"{job.id}-{job.receipt}"] = job.died
                topic.kick_many([job.id for job in kicked])
                jobs = topic.pop_many(of_a_turn // 20)
                topic.finish_many(jobs)
                expected.update({f"{job.id}-{job.receipt}": "finished" for job in jobs})
            if turn == 5:
                cursor: str | None = None
                while True:
                    page = topic.list("finished", limit=1000, cursor=cursor)
                    gone.update({f"{job.id}-{job.receipt}": job.finished for job in page if job.finished})
                    cursor = page.cursor
                    if cursor is None:
                        break
                topic.purge("finished")
            position = read_some(drawn.randrange(of_a_turn * 3 // 10, of_a_turn * 3 // 2))
        read_some(20_000)
    ids = [str(one) for one, _ in received if isinstance(one, str)]
    gaps = [(since, until) for since, until in received if isinstance(since, datetime) and isinstance(until, datetime)]
    places = [(int(moment), job.encode()) for moment, job in (id.split("-", 1) for id in ids)]
    assert places == sorted(places), "in the order of their moments"
    assert len(ids) == len(set(ids)), "each once"
    states = {id.split("-", 1)[1]: state for id, state in received if isinstance(id, str)}
    missed = expected.keys() - states.keys()
    assert states == {id: state for id, state in expected.items() if id not in missed}
    assert missed <= gone.keys(), "what is kept has come"
    assert missed
    assert all(any(since <= gone[id] <= until for since, until in gaps) for id in missed), "what is not, was said"
    assert all(any(since <= gone[id] <= until for id in missed) for since, until in gaps), "and nothing else"


def test_ends_of_partitions_are_one_list(valkey_url: str, namespace: str, clock: Clock) -> None:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        topic = client.topic("many", partitions=3)
        topic.configure(keep_finished="1h")
        clock.advance("1s")
        begin = clock.now
        ids = [f"job-{n:02}" for n in range(40)]
        for id in ids:
            topic.add(None, id=id)
            topic.finish(topic.pop())
            clock.advance("1ms" if int(id[-2:]) % 4 == 3 else 0)
        clock.advance("1s")
        found = list(topic.ends(since=begin, wait=0))
        assert [one.job.id for one in found if isinstance(one, tarry.End)] == ids
        for at, end in enumerate(found[::5]):
            assert isinstance(end, tarry.End)
            assert [one.job.id for one in topic.ends(since=end.id, wait=0) if isinstance(one, tarry.End)] == ids[
                5 * at + 1 :
            ]
        topic.purge("finished")
        [gap] = topic.ends(since=begin, wait=0)
        assert isinstance(gap, UnknownEnds)


def test_a_reader_that_has_read_all_asks_again_only_for_news(own_server: Callable[..., ServerProcess]) -> None:
    server = own_server()
    with tarry.Client(server.url) as client:
        topic = client.topic("many")
        topic.configure(keep_finished="1h")
        begin = topic.ends(wait=0)
        assert list(begin) == []
        topic.add(None)
        topic.finish(topic.pop())
        asked = scripts(server)
        [end] = topic.ends(since=begin.position, wait="200ms")
        assert isinstance(end, tarry.End)
        assert scripts(server) - asked == 2, "at the beginning, and when the wait is over"


def scripts(server: ServerProcess) -> int:
    """How many it was asked to run."""
    said = server.ask("INFO", "commandstats")
    assert isinstance(said, bytes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_eval\w*:calls=(\d+)", said.decode()))


def test_no_end_is_given_before_the_clocks_of_all_partitions_have_passed_it(valkey_url: str, namespace: str, clock: Clock) -> None:  # fmt: skip
    """Their servers' clocks differ: what the last one may still write comes first."""
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        topic = client.topic("many", partitions=2)
        contexts = [part.context for part in client.engine.run(topic.verbs.partitions())]
    asked = ends.read_ends(contexts, Position(50), 10)
    next(asked)

    def ended(at: int, id: bytes) -> list[Any]:
        return [at, 7, id, b"dead", at, b"", None, None]  # its record is gone

    ahead = [100, 100, b"", 0, 0, 0, 0, ended(60, b"a"), ended(90, b"b")]
    behind = [80, 80, b"", 0, 0, 0, 0, ended(70, b"c")]
    try:
        asked.send([ahead, behind])
    except StopIteration as end:
        page = end.value
    assert [one.since.microsecond for one in page.found] == [60, 70]
    assert (page.position, page.again_in_s) == (Position(80), 0.001)
