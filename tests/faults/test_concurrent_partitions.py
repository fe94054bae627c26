"""Partitions are asked at the same time, in one exchange; faults mean the same as one partition after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from faults.cancellation import MOMENTS, cancelled_at
from faults.proxy import CUTS, TORN, UNSENT, Proxy
from faults.scenarios import PATIENT, QUIET_S
from tarry import JobExists, NewJob, StaleReceipt, Unavailable
from tarry.clients.testing import TestAsyncClient, TestClient
from tarry.verbs.jobs.partitions import partition_of_id

PARTS = 8
MANY = [NewJob(n, id=f"{n}") for n in range(200)]


@pytest.fixture
def at(direct: TestClient, name: str) -> Any:
    """The topic from the side, where the connection never breaks."""
    return direct.topic(name, partitions=PARTS)


@pytest.fixture
def call_verb(kind: str, make_client: Any, proxy: Proxy, at: Any) -> Callable[..., Any]:
    """Calls a verb over the open connection of the proxy."""
    at.stats()
    way = make_client(kind, proxy.url(), patience=PATIENT)
    topic = way.topic(at.name)
    way.call(topic, "add_many", ["warm"])
    way.call(topic, "purge")
    return lambda verb, *given, **named: way.call(topic, verb, *given, **named)


# ── how many exchanges ───────────────────────────────────────────────────────────────────────────────────────────────

VERBS: dict[str, tuple[Any, ...]] = {
    "stats": (),
    "list": (),
    "get_many": ([f"{n}" for n in range(50)],),
    "delete_many": ([f"{n}" for n in range(50)],),
    "kick_many": ([f"{n}" for n in range(50)],),
    "add_many": (["body"] * 100,),
    "pause": ("1h",),
    "resume": (),
    "purge": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_eight_partitions_need_one_round_trip(verb: str, call_verb: Any, proxy: Proxy, at: Any) -> None:
    at.add_many(MANY)
    call_verb(verb, *VERBS[verb])  # the scripts are known from now on
    before = proxy.sent
    call_verb(verb, *VERBS[verb])
    assert proxy.sent == before + 1


def test_settling_needs_one_round_trip_and_popping_needs_several(call_verb: Any, proxy: Proxy, at: Any) -> None:
    at.add_many(MANY)
    call_verb("finish_many", call_verb("pop_many", 100))
    before = proxy.sent
    jobs = call_verb("pop_many", 100)
    assert proxy.sent > before + 1, "what hands out is asked one after the other"
    before = proxy.sent
    call_verb("finish_many", jobs)
    assert proxy.sent == before + 1


def test_partitions_are_scanned_in_parallel_steps(call_verb: Any, proxy: Proxy, at: Any) -> None:
    at.add_many(MANY)
    assert call_verb("check").ok
    before = proxy.sent
    assert call_verb("check").ok
    words = "each job is read once: the places of a sound topic are counted, not read; the bytes that may wait are asked for once"
    assert proxy.sent == before + 5, words
    call_verb("touch_holder", "nobody", ttr=9)
    before = proxy.sent
    call_verb("touch_holder", "nobody", ttr=9)
    assert proxy.sent == before + PARTS // 2, "of steps that may go through 500 jobs each, two are a thousand"


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", CUTS)
def test_a_connection_cut_in_mid_batch_loses_nothing(cut: str, call_verb: Any, proxy: Proxy, at: Any) -> None:
    proxy.arm(cut)
    added = call_verb("add_many", [*MANY, *range(50)])
    assert [one.id for one in added[:200]] == [job.id for job in MANY]
    assert all(one.is_new for one in added)
    proxy.arm(cut)
    assert (call_verb("stats").ready, at.stats().added) == (250, 251)
    jobs = []
    while some := call_verb("pop_many", 100):
        jobs += some
    proxy.arm(cut)
    call_verb("release_many", jobs[:50], delay="1h")
    proxy.arm(cut)
    call_verb("finish_many", jobs[50:])
    proxy.arm(cut)
    assert sum(job is not None for job in call_verb("get_many", [job.id for job in jobs])) == 50
    assert proxy.struck == 5
    now = at.stats()
    assert (now.delayed, now.reserved, now.finished, now.refused) == (50, 0, 200, 0)
    assert at.check().ok


def test_a_batch_survives_repeated_connection_cuts(call_verb: Any, proxy: Proxy, at: Any) -> None:
    proxy.arm("lost", "torn", "unsent", "lost")
    assert all(one.is_new for one in call_verb("add_many", MANY))
    assert (proxy.struck, at.stats().ready) == (4, 200)


@pytest.mark.parametrize("cut", ["ignored", "swallowed"])
def test_a_batch_is_repeated_on_a_silent_connection(
    cut: str, kind: str, make_client: Any, proxy: Proxy, at: Any
) -> None:
    at.stats()
    way = make_client(kind, proxy.url(socket_timeout=QUIET_S), patience=PATIENT)
    topic = way.topic(at.name)
    way.call(topic, "stats")
    proxy.arm(cut)
    assert all(one.is_new for one in way.call(topic, "add_many", MANY))
    assert at.stats().ready == 200


def test_all_partitions_share_one_patience(make_client: Any, proxy: Proxy, at: Any) -> None:
    """Eight partitions are not tried for eight times as long."""
    at.stats()
    way = make_client("sync", proxy.url(), patience=0.15)
    topic = way.topic(at.name)
    way.call(topic, "stats")
    proxy.refusing = True
    proxy.cut_all()
    before = proxy.met
    with pytest.raises(Unavailable, match=r"did not answer within 0\.\d s: .*safe to repeat"):
        way.call(topic, "stats")
    assert proxy.met - before < PARTS
    proxy.refusing = False
    assert way.call(topic, "stats").ready == 0


def test_flushed_scripts_are_loaded_again_for_all_partitions(call_verb: Any, running: Any, at: Any) -> None:
    call_verb("add_many", MANY)
    running.ask("SCRIPT", "FLUSH")
    assert call_verb("stats").ready == 200
    running.ask("SCRIPT", "FLUSH")
    assert sum(job is not None for job in call_verb("get_many", [job.id for job in MANY])) == 200


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_valid_receipts_are_settled_and_the_error_names_all_stale_ones(call_verb: Any, at: Any) -> None:
    call_verb("add_many", MANY)
    jobs = []
    while some := call_verb("pop_many", 100):
        jobs += some
    gone = jobs[::7]
    at.finish_many(gone)
    with pytest.raises(StaleReceipt) as refused:
        call_verb("finish_many", jobs)
    by_place = sorted(gone, key=lambda job: partition_of_id(job.id, PARTS))  # and as they were given, for it is stable
    assert refused.value.id == by_place[0].id
    assert list(refused.value.reasons.items()) == [(job.id, "gone") for job in by_place]
    assert at.stats().finished == 200


def test_an_existing_id_is_refused_and_added_jobs_are_counted(call_verb: Any, at: Any) -> None:
    at.add("old", id="7")
    with pytest.raises(JobExists) as refused:
        call_verb("add_many", MANY)
    mine = sum(partition_of_id(job.id, PARTS) == partition_of_id("7", PARTS) for job in MANY)
    assert (refused.value.id, refused.value.done) == ("7", 200 - mine)
    assert at.stats().ready == refused.value.done + 1


@pytest.mark.slow
def test_certainly_added_jobs_are_counted_when_patience_ends(
    kind: str, make_client: Any, proxy: Proxy, at: Any
) -> None:
    """The second thousand of a partition does not arrive; all that came before it did."""
    at.stats()
    way = make_client(kind, proxy.url(), patience=0.15)
    topic = way.topic(at.name)
    jobs = [NewJob(f"job {n}.", id=f"{n}") for n in range(9000)]
    first = [job for job in jobs if partition_of_id(job.id, PARTS) == 0]
    way.call(topic, "add_many", ["warm"])
    at.purge()
    proxy.arm(*[UNSENT] * 50, at=f"{first[1000].body}".encode())
    with pytest.raises(Unavailable) as raised:
        way.call(topic, "add_many", jobs)
    assert PARTS * 1000 <= raised.value.done <= at.stats().ready < 9000


# ── who does not wait any more ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancelled_add_many_is_added_or_never_sent(moment: str, proxy: Proxy, at: Any, clock: Any) -> None:
    at.stats()

    async def story() -> None:
        async with TestAsyncClient(proxy.url(), clock) as client:
            topic = client.topic(at.name)
            await topic.stats()
            for k in range(1, 100):
                cut = await cancelled_at(topic.add_many(MANY, if_exists="keep"), k, moment)
                some = await topic.stats()  # comes after whatever was sent
                assert some.ready in (0, 200) or some.ready == sum(
                    partition_of_id(job.id, PARTS)
                    in {partition_of_id(one.id, PARTS) for one in await topic.list(limit=1000)}
                    for job in MANY
                )
                assert (await topic.check()).ok
                await topic.purge()
                if not cut.cancelled:
                    assert len(cut.answer) == 200
                    break

    asyncio.run(story())


def test_an_interrupted_call_leaves_no_answer_for_the_next(
    proxy: Proxy, make_client: Any, at: Any, monkeypatch: Any
) -> None:
    """Ctrl-C while answers are read: they are not taken for those of the next verb."""
    from tarry.connections.blocking import RequestConnection

    class Interrupted(BaseException):
        pass

    at.add_many(MANY)
    way = make_client("sync", proxy.url(), patience=PATIENT)
    topic = way.topic(at.name)
    way.call(topic, "stats")
    reads, read_one = [0], RequestConnection.read

    def read(connection: Any) -> Any:
        reads[0] += 1
        if reads[0] == 4:
            raise Interrupted
        return read_one(connection)

    monkeypatch.setattr(RequestConnection, "read", read)
    with pytest.raises(Interrupted):
        topic.get_many([job.id for job in MANY])
    assert (reads[0], topic.stats().ready) == (4, 200)


def test_only_partitions_with_missing_answers_are_asked_again(
    kind: str, make_client: Any, proxy: Proxy, at: Any
) -> None:
    """Only the partitions whose answers are missing are asked again: those find nothing more to delete."""
    at.add_many(MANY)
    way = make_client(kind, proxy.url(), patience=PATIENT)
    topic = way.topic(at.name)
    way.call(topic, "stats")
    way.call(topic, "resume")
    proxy.arm(TORN)
    assert 0 < way.call(topic, "purge") < 200
    assert at.stats().ready == 0
