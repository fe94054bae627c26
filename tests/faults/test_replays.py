"""Every verb on a line that breaks before, after, or in the middle of its answer: what was promised holds.

add                          the same answer, and the job is there exactly once, under every if_exists
finish release bury touch    success
pop                          what a lost answer handed out comes back after its TTR; what was never sent is handed out
reads, and verbs by id       asked again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from faults.proxy import CUTS, DONE, SILENT, Proxy
from faults.ways import Way
from tarry import NewJob, Unavailable
from tarry.clients.testing import Clock, TestClient

PATIENT, QUIET_S = 30, 0.25
TTR = "60s"


@dataclass
class Scene:
    """One verb on a line that breaks. ``say`` performs it there; ``at`` looks from the side."""

    way: Way
    topic: Any
    at: Any
    clock: Clock
    cut: str

    def say(self, verb: str, *given: Any, **named: Any) -> Any:
        return self.way.do(self.topic, verb, *given, **named)

    @property
    def done(self) -> bool:
        return self.cut in DONE


VERBS: dict[str, Callable[[Scene], Iterator[None]]] = {}


def verb(story: Callable[[Scene], Iterator[None]]) -> Callable[[Scene], Iterator[None]]:
    """What is before ``yield`` goes over a sound line, the first script after it meets the fault."""
    VERBS[story.__name__] = story
    return story


def counts(scene: Scene) -> tuple[int, int, int, int]:
    stats = scene.at.stats()
    return stats.delayed, stats.ready, stats.reserved, stats.dead


# ── putting in ───────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def add(scene: Scene) -> Iterator[None]:
    yield
    added = scene.say("add", "tea")
    assert (added.created, added.state, counts(scene)) == (True, "ready", (0, 1, 0, 0))
    assert scene.at.pop().id == added.id


@verb
def add_late(scene: Scene) -> Iterator[None]:
    yield
    added = scene.say("add", "tea", delay="1h", id="a", headers={"x": "y"})
    assert (added.id, added.created, added.state, counts(scene)) == ("a", True, "delayed", (1, 0, 0, 0))
    assert scene.at.get("a").due == added.due


@verb
def add_with_an_id(scene: Scene) -> Iterator[None]:
    yield
    assert scene.say("add", "tea", id="a", if_exists="error").created
    assert counts(scene) == (0, 1, 0, 0)


@verb
def add_keep(scene: Scene) -> Iterator[None]:
    yield
    assert scene.say("add", "tea", id="a", if_exists="keep").created
    assert counts(scene) == (0, 1, 0, 0)


@verb
def add_keep_of_a_job_that_is_there(scene: Scene) -> Iterator[None]:
    scene.at.add("old", id="a")
    yield
    assert not scene.say("add", "new", id="a", if_exists="keep").created
    assert scene.at.get("a").body == "old"


@verb
def add_replace(scene: Scene) -> Iterator[None]:
    scene.at.add("old", id="a", delay="1h")
    yield
    assert scene.say("add", "new", id="a", if_exists="replace").created
    assert (scene.at.get("a").body, counts(scene)) == ("new", (0, 1, 0, 0))


@verb
def add_many(scene: Scene) -> Iterator[None]:
    scene.at.add("old", id="a")
    yield
    jobs = ["tea", NewJob("milk", id="b", delay="1h"), NewJob("new", id="a")]
    added = scene.say("add_many", jobs, if_exists="replace")
    assert [a.created for a in added] == [True, True, True]
    assert counts(scene) == (1, 2, 0, 0)


# ── taking out ───────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def pop(scene: Scene) -> Iterator[None]:
    scene.at.add("tea")
    yield
    job = scene.say("pop", ttr=TTR)
    if scene.done:
        assert job is None
        scene.clock.advance("61s")
        job = scene.say("pop")
    assert (job.body, job.attempt) == ("tea", 2 if scene.done else 1)
    scene.say("finish", job)


@verb
def pop_many(scene: Scene) -> Iterator[None]:
    scene.at.add_many(list(range(7)))
    yield
    jobs = scene.say("pop_many", 4, ttr=TTR)
    assert [job.body for job in jobs] == ([4, 5, 6] if scene.done else [0, 1, 2, 3])
    scene.say("finish_many", jobs)
    scene.clock.advance("61s")
    assert sorted(job.body for job in scene.say("pop_many", 9)) == ([0, 1, 2, 3] if scene.done else [4, 5, 6])


@verb
def pop_that_waits(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", delay="5s", ttr="10s")
    yield
    job = scene.say("pop", wait="1m")
    assert (job.body, job.attempt, job.lateness.total_seconds()) == ("tea", 1, 0)


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def held(scene: Scene, n: int = 1) -> list[Any]:
    scene.at.add_many([f"job {i}" for i in range(n)])
    jobs: list[Any] = scene.say("pop_many", n, ttr=TTR)
    return jobs


@verb
def finish(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    yield
    scene.say("finish", job)
    assert (counts(scene), scene.at.stats().stale) == ((0, 0, 0, 0), 0)


@verb
def finish_many(scene: Scene) -> Iterator[None]:
    jobs = held(scene, 3)
    yield
    scene.say("finish_many", jobs)
    assert (counts(scene), scene.at.stats().finished) == ((0, 0, 0, 0), 3)


@verb
def touch(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    scene.clock.advance("50s")
    yield
    scene.say("touch", job)
    scene.clock.advance("50s")
    assert counts(scene) == (0, 0, 1, 0)


@verb
def touch_many(scene: Scene) -> Iterator[None]:
    jobs = held(scene, 3)
    yield
    scene.say("touch_many", jobs, "5m")
    scene.clock.advance("4m")
    assert counts(scene) == (0, 0, 3, 0)


@verb
def release(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    yield
    scene.say("release", job, "10s")
    assert (counts(scene), scene.at.stats().stale) == ((1, 0, 0, 0), 0)
    assert scene.at.get(job.id).attempts == 1


@verb
def release_uncounted(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    yield
    scene.say("release", job, count=False)
    assert (counts(scene), scene.at.get(job.id).attempts) == ((0, 1, 0, 0), 0)


@verb
def release_of_the_last_attempt(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", max_attempts=1)
    job = scene.say("pop")
    yield
    scene.say("release", job)
    assert counts(scene) == (0, 0, 0, 1)


@verb
def release_many(scene: Scene) -> Iterator[None]:
    jobs = held(scene, 3)
    yield
    scene.say("release_many", jobs, 0)
    scene.clock.advance("1ms")  # one after the other, a microsecond apart
    assert counts(scene) == (0, 3, 0, 0)


@verb
def bury(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    yield
    scene.say("bury", job, "cold")
    assert (counts(scene), scene.at.get(job.id).reason) == ((0, 0, 0, 1), "cold")


@verb
def bury_many(scene: Scene) -> Iterator[None]:
    jobs = held(scene, 3)
    yield
    scene.say("bury_many", jobs, "cold")
    assert (counts(scene), scene.at.stats().died) == ((0, 0, 0, 3), 3)


@verb
def a_failed_block(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    yield
    scene.say("release", job, None)
    assert counts(scene) == (1, 0, 0, 0)


# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def kick(scene: Scene) -> Iterator[None]:
    (job,) = held(scene)
    scene.at.bury(job)
    yield
    assert scene.say("kick", job.id) == ("ready" if scene.done else "dead")
    assert counts(scene) == (0, 1, 0, 0)


@verb
def kick_many(scene: Scene) -> Iterator[None]:
    jobs = held(scene, 3)
    scene.at.bury_many(jobs)
    yield
    assert len(scene.say("kick_many", [job.id for job in jobs])) == 3
    assert (counts(scene), scene.at.stats().kicked) == ((0, 3, 0, 0), 3)


@verb
def delete(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", id="a")
    yield
    assert scene.say("delete", "a") == (None if scene.done else "ready")
    assert (counts(scene), scene.at.stats().deleted) == ((0, 0, 0, 0), 1)


@verb
def delete_many(scene: Scene) -> Iterator[None]:
    ids = [added.id for added in scene.at.add_many([1, 2, 3])]
    yield
    scene.say("delete_many", ids)
    assert counts(scene) == (0, 0, 0, 0)


@verb
def reschedule(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", id="a")
    yield
    assert scene.say("reschedule", "a", delay="1h") == ("delayed" if scene.done else "ready")
    assert counts(scene) == (1, 0, 0, 0)


@verb
def reschedule_many(scene: Scene) -> Iterator[None]:
    ids = [added.id for added in scene.at.add_many([1, 2, 3], delay="1h")]
    yield
    assert scene.say("reschedule_many", ids, delay=0) == (["ready"] * 3 if scene.done else ["delayed"] * 3)
    assert counts(scene) == (0, 3, 0, 0)


# ── looking and ruling ───────────────────────────────────────────────────────────────────────────────────────────────


@verb
def get(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", id="a")
    yield
    assert scene.say("get", "a").body == "tea"


@verb
def get_many(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", id="a")
    yield
    assert [info and info.body for info in scene.say("get_many", ["a", "b"])] == ["tea", None]


@verb
def list_(scene: Scene) -> Iterator[None]:
    scene.at.add_many([1, 2, 3], delay="1h")
    yield
    assert [info.body for info in scene.say("list")] == [1, 2, 3]


@verb
def stats(scene: Scene) -> Iterator[None]:
    scene.at.add("tea")
    yield
    assert scene.say("stats").ready == 1


@verb
def histogram(scene: Scene) -> Iterator[None]:
    scene.at.add("tea", delay="1m")
    yield
    assert sum(scene.say("histogram").counts) == 1


@verb
def check(scene: Scene) -> Iterator[None]:
    scene.at.add("tea")
    yield
    assert scene.say("check").ok


@verb
def pause(scene: Scene) -> Iterator[None]:
    scene.at.add("tea")
    yield
    scene.say("pause", "1h")
    assert scene.at.pop() is None


@verb
def resume(scene: Scene) -> Iterator[None]:
    scene.at.add("tea")
    scene.at.pause()
    yield
    scene.say("resume")
    assert scene.at.pop().body == "tea"


@verb
def configure(scene: Scene) -> Iterator[None]:
    yield
    assert scene.say("configure", max_attempts=3).max_attempts == 3


@verb
def purge(scene: Scene) -> Iterator[None]:
    scene.at.add_many([1, 2, 3])
    yield
    assert scene.say("purge") == (0 if scene.done else 3)
    assert counts(scene) == (0, 0, 0, 0)


@verb
def purge_of_a_state(scene: Scene) -> Iterator[None]:
    scene.at.add_many([1, 2, 3])
    scene.at.add("tea", delay="1h")
    yield
    scene.say("purge", "ready")
    assert counts(scene) == (1, 0, 0, 0)


# ── on which lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def perform(story: Callable[[Scene], Iterator[None]], scene: Scene, line: Proxy) -> None:
    scene.say("stats")  # the connection is open
    steps = story(scene)
    next(steps)
    struck = line.struck
    line.arm(scene.cut)
    assert next(steps, "over") == "over"
    assert line.struck == struck + 1
    assert scene.at.check().ok


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("story", VERBS.values(), ids=VERBS.keys())
def test_a_verb_survives_a_cut_line(
    story: Any, cut: str, kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way = ways(kind, line.url(), patience=PATIENT)
    perform(story, Scene(way, way.topic(name), direct.topic(name), clock, cut), line)


@pytest.mark.parametrize("cut", SILENT)
@pytest.mark.parametrize("story", [add_with_an_id, pop, finish, stats], ids=lambda story: story.__name__)
def test_a_verb_survives_a_line_that_goes_silent(
    story: Any, cut: str, kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way = ways(kind, line.url(socket_timeout=QUIET_S), patience=PATIENT)
    perform(story, Scene(way, way.topic(name), direct.topic(name), clock, cut), line)


@pytest.mark.parametrize("cut", CUTS)
def test_the_very_first_question_may_be_cut_as_well(cut: str, kind: str, ways: Any, line: Proxy, name: str) -> None:
    way = ways(kind, line.url(), patience=PATIENT)
    line.arm(cut, cut, at=b"INFO")
    way.do(way.topic(name), "add", "tea")
    assert way.do(way.topic(name), "pop").body == "tea"
    assert line.struck == 2


def test_a_cut_line_is_cut_again_and_again(
    kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way = ways(kind, line.url(), patience=PATIENT)
    topic = way.topic(name)
    line.arm("lost", "torn", "unsent", "lost")
    added = way.do(topic, "add", "tea", id="a")
    assert (added.created, line.struck, direct.topic(name).stats().ready) == (True, 4, 1)


# ── when patience ends ───────────────────────────────────────────────────────────────────────────────────────────────


def test_when_patience_ends_an_error_says_so_in_words(kind: str, ways: Any, line: Proxy, name: str) -> None:
    way = ways(kind, line.url(), patience=0.15)
    topic = way.topic(name)
    way.do(topic, "stats")
    line.refusing = True
    line.cut_all()
    with pytest.raises(Unavailable, match=r"did not answer within 0\.\d s: .*safe to repeat") as told:
        way.do(topic, "add", "tea")
    assert told.value.__cause__ is not None
    assert isinstance(told.value, ConnectionError)
    line.refusing = False
    assert way.do(topic, "add", "tea").created


def test_a_waiting_pop_says_so_too(kind: str, ways: Any, line: Proxy, name: str) -> None:
    way = ways(kind, line.url(), imaginary=False, patience=0.15)
    topic = way.topic(name)
    way.do(topic, "stats")
    line.refusing = True
    line.cut_all()
    with pytest.raises(Unavailable):
        way.do(topic, "pop", wait=None)


def test_a_silent_server_is_given_up_when_patience_ends(kind: str, ways: Any, line: Proxy, name: str) -> None:
    way = ways(kind, line.url(socket_timeout=0.1), patience=0.15)
    topic = way.topic(name)
    way.do(topic, "stats")
    line.arm(*["ignored"] * 9)
    with pytest.raises(Unavailable):
        way.do(topic, "add", "tea")
    assert 2 <= line.struck <= 4


def test_add_many_tells_how_many_are_certainly_done(
    kind: str, ways: Any, line: Proxy, direct: TestClient, name: str
) -> None:
    way = ways(kind, line.url(), patience=0.15)
    topic = way.topic(name)
    way.do(topic, "add_many", ["warm"])
    direct.topic(name).purge()
    line.arm("unsent", at=b"job 1500")
    line.arm(*["unsent"] * 50, at=b"job 1500")
    with pytest.raises(Unavailable) as told:
        way.do(topic, "add_many", [f"job {i}" for i in range(2500)])
    assert told.value.done == 1000 == direct.topic(name).stats().ready


def test_what_has_come_of_a_torn_pipeline_counts(line: Proxy, ways: Any, direct: TestClient, name: str) -> None:
    """Of a pipeline, only the commands whose answers are missing are asked again: a popped job is in hand."""
    import asyncio

    way = ways("async", line.url(), patience=PATIENT)
    topic = way.topic(name)
    direct.topic(name).add_many(["x" * 10, "y" * 300_000])

    async def story() -> tuple[Any, Any]:
        await topic.stats()
        line.arm("torn")
        return await asyncio.gather(topic.pop(), topic.pop())

    first, second = way.loop.run(story())
    assert first.body == "x" * 10
    assert second is None or second.attempt == 1
