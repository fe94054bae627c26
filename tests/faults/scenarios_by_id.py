"""Verbs on a connection that breaks: jobs by their ids, views, and settings of a topic."""

from __future__ import annotations

from collections.abc import Iterator

from faults.scenarios import TTR, Scenario, counts, held, verb
from tarry.clients.blocking.topic import jobs_of

# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@verb
def kick(scenario: Scenario) -> Iterator[None]:
    (job,) = held(scenario)
    scenario.at.bury(job)
    yield
    assert scenario.perform("kick", job.id) == ("ready" if scenario.done else "dead")
    assert counts(scenario) == (0, 1, 0, 0)


@verb
def kick_many(scenario: Scenario) -> Iterator[None]:
    jobs = held(scenario, 3)
    scenario.at.bury_many(jobs)
    yield
    assert len(scenario.perform("kick_many", [job.id for job in jobs])) == 3
    assert (counts(scenario), scenario.at.stats().kicked) == ((0, 3, 0, 0), 3)


@verb
def delete(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a")
    yield
    assert scenario.perform("delete", "a") == (None if scenario.done else "ready")
    assert (counts(scenario), scenario.at.stats().deleted) == ((0, 0, 0, 0), 1)


@verb
def delete_many(scenario: Scenario) -> Iterator[None]:
    ids = [added.id for added in scenario.at.add_many([1, 2, 3])]
    yield
    scenario.perform("delete_many", ids)
    assert counts(scenario) == (0, 0, 0, 0)


@verb
def reschedule(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a")
    yield
    assert scenario.perform("reschedule", "a", delay="1h") == ("delayed" if scenario.done else "ready")
    assert counts(scenario) == (1, 0, 0, 0)


@verb
def reschedule_many(scenario: Scenario) -> Iterator[None]:
    ids = [added.id for added in scenario.at.add_many([1, 2, 3], delay="1h")]
    yield
    assert scenario.perform("reschedule_many", ids, delay=0) == (["ready"] * 3 if scenario.done else ["delayed"] * 3)
    assert counts(scenario) == (0, 3, 0, 0)


@verb
def pop_by_id(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a", delay="1h", ttr=TTR)
    yield
    taken = scenario.run("pop_by_id", "a", ("delayed",))
    if scenario.done:  # as with pop, a job whose reply is lost comes back after its TTR
        assert taken is None
        scenario.clock.advance("61s")
        taken = scenario.run("pop_by_id", "a", ("ready",))
    (job,) = jobs_of(scenario.topic, taken, taken.jobs)
    assert (job.body, job.attempt, counts(scenario)) == ("tea", 2 if scenario.done else 1, (0, 0, 1, 0))


@verb
def delete_exactly(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a", delay="1h")
    nonce = scenario.at.get("a").head.nonce
    yield
    assert scenario.run("delete_exactly", "a", nonce) == (None if scenario.done else "delayed")
    assert (counts(scenario), scenario.at.stats().deleted) == ((0, 0, 0, 0), 1)


# ── views and settings ───────────────────────────────────────────────────────────────────────────────────────────────


@verb
def get(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a")
    yield
    assert scenario.perform("get", "a").body == "tea"


@verb
def get_many(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", id="a")
    yield
    assert [info and info.body for info in scenario.perform("get_many", ["a", "b"])] == ["tea", None]


@verb
def list_(scenario: Scenario) -> Iterator[None]:
    scenario.at.add_many([1, 2, 3], delay="1h")
    yield
    assert [info.body for info in scenario.perform("list")] == [1, 2, 3]


@verb
def stats(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    yield
    assert scenario.perform("stats").ready == 1


@verb
def histogram(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea", delay="1m")
    yield
    assert sum(scenario.perform("histogram").counts) == 1


@verb
def throughput(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    scenario.at.pop()
    yield
    assert sum(minute.added for minute in scenario.perform("throughput")) == 1


@verb
def dead_groups(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    scenario.at.bury(scenario.at.pop(), reason="no card")
    yield
    assert [group.count for group in scenario.perform("dead_groups")] == [1]


@verb
def check(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    yield
    assert scenario.perform("check").ok


@verb
def pause(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    yield
    scenario.perform("pause", "1h")
    assert scenario.at.pop() is None


@verb
def resume(scenario: Scenario) -> Iterator[None]:
    scenario.at.add("tea")
    scenario.at.pause()
    yield
    scenario.perform("resume")
    assert scenario.at.pop().body == "tea"


@verb
def configure(scenario: Scenario) -> Iterator[None]:
    yield
    assert scenario.perform("configure", max_attempts=3).max_attempts == 3


@verb
def purge(scenario: Scenario) -> Iterator[None]:
    scenario.at.add_many([1, 2, 3])
    yield
    assert scenario.perform("purge") == (0 if scenario.done else 3)
    assert counts(scenario) == (0, 0, 0, 0)


@verb
def purge_of_a_state(scenario: Scenario) -> Iterator[None]:
    scenario.at.add_many([1, 2, 3])
    scenario.at.add("tea", delay="1h")
    yield
    scenario.perform("purge", "ready")
    assert counts(scenario) == (1, 0, 0, 0)
