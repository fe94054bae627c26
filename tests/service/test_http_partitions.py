"""Topics with partitions, over both clients of a service."""

from __future__ import annotations

from datetime import timedelta

import pytest

import tarry
from service.any_client import AnyClient
from tarry import BadInput
from tarry.verbs.jobs import topic_migration as migration
from tarry.verbs.schedules import schedule_migration as planning


def test_a_partitioned_topic_is_created_and_used(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic(name, partitions=4)
    assert len(any_client.call(topic.add_many, range(20))) == 20
    assert len(any_client.near.engine.run(any_client.near.topic(name).verbs.partitions())) == 4
    assert {job.body for job in any_client.call(topic.pop_many, 20)} == set(range(20))
    assert any_client.call(topic.stats).reserved == 20
    assert any_client.call(any_client.far.topic(name, partitions=4).stats).reserved == 20, "twice is once"
    with pytest.raises(BadInput, match="has 4, not 8"):
        any_client.call(any_client.far.topic(name, partitions=8).stats)
    any_client.call(any_client.far.topic(name + "-plain").add, 1)
    with pytest.raises(BadInput, match="plain topic that has been used"):
        any_client.call(any_client.far.topic(name + "-plain", partitions=2).pop)
    with pytest.raises(BadInput, match="from 1 to 1024"):
        any_client.far.topic(name, partitions=0)


def test_departing_jobs_and_schedules_are_counted(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic(name, partitions=2)
    any_client.call(topic.add_many, range(20), delay="1h")
    for k in range(6):
        any_client.call(any_client.far.schedules.put, name, f"plan-{k}", "tea", every="1h")
    for part in any_client.near.engine.run(any_client.near.topic(name).verbs.partitions()):
        any_client.near.engine.run(migration.depart(part.keys, b"word"))
        any_client.near.engine.run(planning.depart(part.keys, b"0", b"word"))
    found = any_client.call(topic.check)
    assert (found.ok, found.leaving, found.schedules_leaving) == (True, 20, 6)
    assert found == any_client.near.topic(name).check()
    any_client.call(any_client.far.migrate, topic, any_client.far.topic(name + "-there"))
    assert (any_client.call(topic.check).leaving, any_client.call(topic.check).schedules_leaving) == (0, 0)


def test_jobs_of_one_pop_are_settled_by_their_own_receipts(any_client: AnyClient, name: str) -> None:
    topic = any_client.far.topic(name, partitions=8)
    any_client.call(topic.add_many, [tarry.NewJob(k, id=f"j{k}") for k in range(12)])
    jobs = any_client.call(topic.pop_many, 12, ttr="1h")
    assert len({job.receipt for job in jobs}) > 1
    assert {job.id: job.receipt for job in jobs} == {
        job.id: job.receipt for job in any_client.near.topic(name).get_many([job.id for job in jobs])
    }
    assert all(job.lateness >= timedelta(0) for job in jobs)
    done, kept, back, dead, own = jobs[:3], jobs[3:6], jobs[6:8], jobs[8:10], jobs[10:]
    any_client.call(topic.finish_many, done)
    any_client.call(topic.touch_many, kept, ttr="2h")
    any_client.call(topic.release_many, back, delay="1h", reason="later")
    any_client.call(topic.bury_many, dead, reason="no such order")
    for job in own:
        any_client.call(job.touch)
        any_client.call(job.finish)
    stats = any_client.call(topic.stats)
    assert (stats.reserved, stats.delayed, stats.dead, stats.finished, stats.refused) == (3, 2, 2, 5, 0)
    assert [found.state for found in any_client.call(topic.get_many, [job.id for job in kept])] == ["reserved"] * 3
    with pytest.raises(tarry.StaleReceipt) as refused:
        any_client.call(topic.finish_many, [*back, *kept, *dead])
    assert refused.value.reasons == {**{job.id: "released" for job in back}, **{job.id: "dead" for job in dead}}
    assert "4 jobs were refused" in str(refused.value)
    assert any_client.call(topic.kick_many, [job.id for job in dead]) == ["dead", "dead"]
    again = any_client.call(topic.pop_many, 12, wait=5)
    assert {(job.id, job.attempt) for job in again} <= {(job.id, 1) for job in dead}


def test_the_number_of_partitions_holds_for_every_handle_of_an_http_client(any_client: AnyClient, name: str) -> None:
    before = any_client.far.topic(name)
    topic = any_client.far.topic(name, partitions=4)
    any_client.call(any_client.far.schedules.put, name, "tidy", every="1h")
    any_client.call(before.add, 1)
    assert any_client.call(topic.add, 2).is_new
    assert len(any_client.near.engine.run(any_client.near.topic(name).verbs.partitions())) == 4
    any_client.call(any_client.far.topic(name + "-plain").add, 1)
    wrong = any_client.far.topic(name + "-plain", partitions=2)
    assert any_client.call(any_client.far.pop, name + "-plain").body == 1, "who says no number takes it as it is"
    with pytest.raises(BadInput, match="plain topic that has been used"):
        any_client.call(wrong.add, 1)
