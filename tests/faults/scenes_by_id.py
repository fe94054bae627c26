"""Verbs on a line that breaks: jobs by their ids, looks at a topic, and ruling it."""

from __future__ import annotations

from collections.abc import Iterator

from faults.scenes import Scene, counts, held, verb

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
