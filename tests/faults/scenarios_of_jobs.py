"""Verbs on a connection that breaks: adding, popping and settling jobs."""

from __future__ import annotations

from collections.abc import Iterator

from faults.scenarios import TTR, Scenario, counts, held, verb
from tarry import NewJob

# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def add(scenario: Scenario) -> Iterator[None]:
    yield
    added = scenario.perform("add", "tea")
    assert (added.is_new, added.state, counts(scenario)) == (True, "ready", (0, 1, 0, 0))
    assert scenario.at.pop().id == added.id


@verb
def add_late(scenario: Scenario) -> Iterator[None]:
    yield
    added = scenario.perform("add", "tea", delay="1h", id="a", headers={"x": "y"})
    assert (added.id, added.is_new, added.state, counts(scenario)) == ("a", True, "delayed", (1, 0, 0, 0))
    assert scenario.at.get("a").due == added.due


@verb
def add_with_an_id(scenario: Scenario) -> Iterator[None]:
    yield
    assert scenario.perform("add", "tea", id="a", if_exists="error").is_new
    assert counts(scenario) == (0, 1, 0, 0)


@verb
def add_keep(scenario: Scenario) -> Iterator[None]:
    yield
    assert scenario.perform("add", "tea", id="a", if_exists="keep").is_new
    assert counts(scenario) == (0, 1, 0, 0)


@verb
def add_keep_of_a_job_that_is_there(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("old", id="a")
    yield
    assert not scenario.perform("add", "new", id="a", if_exists="keep").is_new
    assert scenario.at.get("a").body == "old"


@verb
def add_once(scenario: Scenario) -> Iterator[None]:
    scenario.at.configure(keep_finished="1d")
    yield
    assert scenario.perform("add", "tea", id="a", if_exists="once").is_new
    scenario.at.finish(scenario.at.pop())
    assert scenario.perform("add", "tea", id="a", if_exists="once").state == "finished"
    assert counts(scenario) == (0, 0, 0, 0)


@verb
def add_many_once(scenario: Scenario) -> Iterator[None]:
    scenario.at.configure(keep_finished="1d")
    scenario.at.add("old", id="a")
    scenario.at.finish(scenario.at.pop())
    yield
    added = scenario.perform("add_many", [NewJob("new", id=id) for id in "ab"], if_exists="once")
    assert [(one.is_new, one.state) for one in added] == [(False, "finished"), (True, "ready")]
    assert counts(scenario) == (0, 1, 0, 0)


@verb
def add_replace(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("old", id="a", delay="1h")
    yield
    assert scenario.perform("add", "new", id="a", if_exists="replace").is_new
    assert (scenario.at.get("a").body, counts(scenario)) == ("new", (0, 1, 0, 0))


@verb
def add_many(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("old", id="a")
    yield
    jobs = ["tea", NewJob("milk", id="b", delay="1h"), NewJob("new", id="a")]
    added = scenario.perform("add_many", jobs, if_exists="replace")
    assert [a.is_new for a in added] == [True, True, True]
    assert counts(scenario) == (1, 2, 0, 0)


# ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def pop(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    yield
    job = scenario.perform("pop", ttr=TTR)
    if scenario.done:
        assert job is None
        scenario.clock.advance("61s")
        job = scenario.perform("pop")
    assert (job.body, job.attempt) == ("tea", 2 if scenario.done else 1)
    scenario.perform("finish", job)


@verb
def pop_many(scenario: Scenario) -> Iterator[None]:
    scenario.at.add_many(list(range(7)))
    yield
    jobs = scenario.perform("pop_many", 4, ttr=TTR)
    assert [job.body for job in jobs] == ([4, 5, 6] if scenario.done else [0, 1, 2, 3])
    scenario.perform("finish_many", jobs)
    scenario.clock.advance("61s")
    assert sorted(job.body for job in scenario.perform("pop_many", 9)) == ([0, 1, 2, 3] if scenario.done else [4, 5, 6])


@verb
def pop_that_waits(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", delay="5s", ttr="10s")
    yield
    job = scenario.perform("pop", wait="1m")
    assert (job.body, job.attempt, job.lateness.total_seconds()) == ("tea", 1, 0)


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def finish(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    scenario.perform("finish", job)
    assert (counts(scenario), scenario.at.stats().refused) == ((0, 0, 0, 0), 0)


@verb
def finish_many(scenario: Scenario) -> Iterator[None]:
    jobs = held(scenario, 3)
    yield
    scenario.perform("finish_many", jobs)
    assert (counts(scenario), scenario.at.stats().finished) == ((0, 0, 0, 0), 3)


@verb
def touch(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    scenario.clock.advance("50s")
    yield
    scenario.perform("touch", job)
    scenario.clock.advance("50s")
    assert counts(scenario) == (0, 0, 1, 0)


@verb
def touch_many(scenario: Scenario) -> Iterator[None]:
    jobs = held(scenario, 3)
    yield
    scenario.perform("touch_many", jobs, ttr="5m")
    scenario.clock.advance("4m")
    assert counts(scenario) == (0, 0, 3, 0)


@verb
def keep_step(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    assert scenario.run("keep_step", job, "charge", b"17") == b"17"
    info = scenario.at.get(job.id)
    assert (info.steps, info.body, counts(scenario)) == ({"charge": 17}, "job 0", (0, 0, 1, 0))
    assert scenario.at.stats().refused == 0


@verb
def set_headers(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    assert scenario.run("set_headers", job, {"kicks": "1"})
    info = scenario.at.get(job.id)
    assert (info.headers, info.body, counts(scenario)) == ({"kicks": "1"}, "job 0", (0, 0, 1, 0))


@verb
def release(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    scenario.perform("release", job, delay="10s")
    assert (counts(scenario), scenario.at.stats().refused) == ((1, 0, 0, 0), 0)
    assert scenario.at.get(job.id).attempts == 1


@verb
def release_uncounted(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    scenario.perform("release", job, counted=False)
    assert (counts(scenario), scenario.at.get(job.id).attempts) == ((0, 1, 0, 0), 0)


@verb
def release_of_the_last_attempt(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", max_attempts=1)
    job = scenario.perform("pop")
    yield
    scenario.perform("release", job)
    assert counts(scenario) == (0, 0, 0, 1)


@verb
def release_many(scenario: Scenario) -> Iterator[None]:
    jobs = held(scenario, 3)
    yield
    scenario.perform("release_many", jobs, delay=0)
    scenario.clock.advance("1ms")  # one after the other, a microsecond apart
    assert counts(scenario) == (0, 3, 0, 0)


@verb
def bury(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    scenario.perform("bury", job, reason="cold")
    assert (counts(scenario), scenario.at.get(job.id).reason) == ((0, 0, 0, 1), "cold")


@verb
def bury_many(scenario: Scenario) -> Iterator[None]:
    jobs = held(scenario, 3)
    yield
    scenario.perform("bury_many", jobs, reason="cold")
    assert (counts(scenario), scenario.at.stats().died) == ((0, 0, 0, 3), 3)


@verb
def a_failed_block(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    yield
    scenario.perform("release", job, delay=None)
    assert counts(scenario) == (1, 0, 0, 0)
