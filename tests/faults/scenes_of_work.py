"""Verbs on a line that breaks: jobs go in, come out, and are settled."""

from __future__ import annotations

from collections.abc import Iterator

from faults.scenes import TTR, Scene, counts, held, verb
from tarry import NewJob

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
