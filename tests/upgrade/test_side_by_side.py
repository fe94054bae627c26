"""Two versions of tarry on one server: each continues with what the other has written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from upgrade.conftest import VersionProcess, both

pytestmark = pytest.mark.slow
Pair = tuple[VersionProcess, VersionProcess]


def advance(pair: Pair, duration: str) -> None:
    both(pair, f"clock.advance({duration!r})")


def test_jobs_of_one_version_are_popped_unchanged_by_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add({'n': 1}, id='plain')")
    giver("topic.add(b'\\x00raw', id='raw', headers={'a': 'b'}, ttr='90s', max_attempts=3)")
    giver("topic.add('late', id='late', delay='10m', max_lateness='1m')")
    assert both(pair, "[shown(job) for job in topic.list()]")
    taker("plain, raw = topic.pop_many(5)")
    assert taker("[plain.body, raw.body.hex(), raw.headers, raw.ttr.total_seconds()]") == [
        {"n": 1}, "00726177", {"a": "b"}, 90.0,
    ]  # fmt: skip
    assert both(pair, "[shown(job) for job in topic.list('reserved')]")
    taker("topic.finish(plain)")
    taker("topic.release(raw, delay='1m', reason='no time\\nlater')")
    advance(pair, "12m")
    assert taker("[(job.id, job.attempt) for job in topic.pop_many(5)]") == [["raw", 2]]
    assert both(pair, "shown(topic.get('late'))")["reason"] == "too late"
    assert both(pair, "counts(topic)")["finished"] == 1
    assert both(pair, "topic.check().ok") is True


def test_an_old_receipt_is_refused_once_the_other_version_has_the_job(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add('tea')")
    giver("job = topic.pop(ttr='10s')")
    advance(pair, "11s")
    taker("job = topic.pop()")
    assert taker("job.attempt") == 2
    for verb in ("finish", "touch", "release", "bury"):
        assert giver.refused(f"topic.{verb}(job)") == "StaleReceipt"
    assert taker("job.receipt") > giver("job.receipt")
    taker("topic.touch(job, ttr='1h')")
    taker("topic.finish(job)")
    assert both(pair, "counts(topic)")["timed_out"] == 1
    assert both(pair, "topic.check().ok") is True


def test_dead_jobs_of_one_version_are_kicked_and_purged_by_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add_many(['a', 'b'])")
    giver("topic.bury_many(topic.pop_many(2), reason='no use')")
    assert both(pair, "[job.reason for job in topic.list('dead')]") == ["no use", "no use"]
    assert taker("topic.kick(topic.list('dead').jobs[0].id)") == "dead"
    assert giver("topic.pop().attempt") == 1
    assert taker("topic.purge('dead')") == 1
    assert both(pair, "counts(topic)")["deleted"] == 1


def test_pause_and_settings_of_one_version_hold_for_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add_many(list('abcde'))")
    giver("topic.pause('1m')")
    assert taker("topic.pop()") is None
    advance(pair, "1m")
    giver("topic.configure(ttr='5m', max_attempts=2, concurrency=3)")
    taker("jobs = topic.pop_many(5)")
    assert taker("[len(jobs), jobs[0].ttr.total_seconds()]") == [3, 300.0]
    assert giver("topic.pop()") is None
    taker("topic.configure(concurrency=None, rate='1/1m')")
    advance(pair, "1m")
    assert giver("topic.pop_many(5)[0].body") == "d"
    assert both(pair, "topic.pop()") is None
    assert both(pair, "str(topic.stats().limited.reason)") == "rate"


def test_a_schedule_of_one_version_fires_once_in_either(pair: Pair) -> None:
    giver, taker = pair
    giver("client.schedules.put('orders', 'report', {'kind': 'daily'}, every='1h')")
    giver("topic.configure(max_attempts=5)")
    advance(pair, "1h")
    assert taker("work(topic)") == {"kind": "daily"}
    assert giver("topic.pop()") is None
    advance(pair, "1h")
    assert giver("work(topic)") == {"kind": "daily"}
    assert taker("topic.pop()") is None
    assert both(pair, "[(one.id, one.fired) for one in client.schedules.list('orders')]") == [["report", 2]]
    taker("client.schedules.pause('orders', 'report')")
    advance(pair, "3h")
    assert giver("topic.pop()") is None
    giver("client.schedules.resume('orders', 'report')")
    advance(pair, "1h")
    assert taker("work(topic)") == {"kind": "daily"}


def test_partitions_of_one_version_are_those_of_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("many = client.topic('many', partitions=4)")
    giver("many.add_many(range(40)); many.add('mine', id='mine')")
    taker("many = client.topic('many')")
    assert both(pair, "counts(many)")["ready"] == 41
    assert taker("many.get('mine').body") == "mine"
    taker("many.add_many(range(20))")
    assert giver("sum(len(many.pop_many(100)) for _ in range(4))") == 61
    assert taker.refused("client.topic('many', partitions=8).pop()") == "BadInput"
    assert both(pair, "many.check().ok") is True


def test_retries_priorities_and_history_of_one_version_are_those_of_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.configure(keep_finished='1d')")
    giver("from tarry import NewJob; topic.add_many([NewJob(n, id=f'p{n}', priority=n) for n in range(4)])")
    taker("first, second = topic.pop_many(2)")
    assert taker("[first.id, second.id]") == ["p3", "p2"]
    taker("topic.release(first, delay='1m', reason='no time')")
    taker("topic.finish(second, result=7)")
    assert both(pair, "[job.id for job in topic.list('retrying')]") == ["p3"]
    assert both(pair, "[(job.id, job.result) for job in topic.list('finished')]") == [["p2", 7]]
    assert giver("[(one.number, one.error) for one in topic.get('p3').failed_attempts]") == [[1, "no time"]]
    advance(pair, "1m")
    assert giver("[job.id for job in topic.pop_many(5)]") == ["p3", "p1", "p0"]
    assert both(pair, "[topic.stats().retrying, topic.check().ok]") == [0, True]


def test_a_migration_begun_by_one_version_is_finished_by_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add_many(range(450), delay='1h')")
    giver(
        "from tarry.verbs.jobs.topic_migration import migrate; "
        "plain = [client.topic(name).verbs._single for name in ('orders', 'orders-2')]"
    )
    giver("journey = migrate(plain[:1], plain[1:], dry_run=False, progress=None); side, request = next(journey)")
    giver(
        "while getattr(getattr(request, 'script', None), 'name', '') != 'migration/depart': "
        "side, request = journey.send(client.engine.run(request))"
    )
    giver("client.engine.run(request)")
    assert both(pair, "counts(topic)")["delayed"] == 250
    assert taker("client.migrate('orders', client.topic('orders-2')).moved") == 450
    assert both(pair, "client.topic('orders-2').stats().delayed") == 450
    assert both(pair, "[topic.check().ok, client.topic('orders-2').check().ok]") == [True, True]


def test_a_move_to_a_topic_begun_by_one_version_is_finished_by_the_other(pair: Pair, namespace: str) -> None:
    """Wherever it was broken off, and two such moves after one another."""
    giver, taker = pair
    for steps in range(1, 9):
        name = f"moved {namespace} {steps}"
        both(pair, f"queue = client.delayed_queue({name!r}, codec='string'); into = client.topic('into-{steps}')")
        giver("queue.offer_many([str(i) for i in range(600)], '1h')")
        giver(
            "from tarry.clients.migration import migrate_queue; "
            "flow = migrate_queue(queue.verbs.context, into.verbs); answer = None"
        )
        giver(
            f"for _ in range({steps}):\n    try: answer = client.engine.runner.perform(flow.send(answer))\n"
            "    except StopIteration: break"
        )
        taker("client.migrate_queue(queue, into)")
        assert both(pair, "into.stats().delayed") == 600
        assert both(pair, "queue.size()") == 0
        giver("queue.offer('one more', '1h')")
        assert giver("client.migrate_queue(queue, into).moved") == 1
        assert both(pair, "[into.stats().delayed, into.check().ok]") == [601, True]


def test_a_begun_migration_is_redirected_by_neither_version(pair: Pair) -> None:
    giver, taker = pair
    for name in ("orders", "orders-2"):
        giver(f"client.topic({name!r}).add(1, id={name!r}, delay='1h')")
    giver("from tarry.verbs.jobs import topic_migration as migration; plain = client.topic('orders').verbs._single")
    giver("destination = migration.Destination(b'elsewhere', b'shop/orders-9')")
    giver("client.engine.run(migration.depart(plain.keys, destination.departure_name(b'word'), migration.NOT_LATE))")
    assert taker.refused("client.migrate('orders', client.topic('orders-2'))") == "BadInput"
    assert both(pair, "client.topic('orders').check().ok") is True


def test_both_versions_share_queues_maps_and_locks(pair: Pair, namespace: str) -> None:
    giver, taker = pair
    name = f"shared {namespace}"
    giver(f"queue = client.delayed_queue({name!r})")
    giver("queue.offer({'n': 1}, '10s'); queue.offer({'n': 2}, '1h')")
    advance(pair, "11s")
    assert taker(f"client.blocking_queue({name!r}).poll(wait='1s')") == {"n": 1}
    giver(f"cache = client.map_cache({name + '-map'!r}, policy=None); cache.put('a', 1, ttl='1m')")
    taker(f"cache = client.map_cache({name + '-map'!r}, policy=None)")
    assert both(pair, "cache.get('a')") == 1
    advance(pair, "2m")
    assert both(pair, "cache.get('a')") is None
    shared = "{'shared': True} if 'shared' in type(real).lock.__code__.co_varnames else {}"  # the older one has no other lock
    giver(f"lock = real.lock({name + '-lock'!r}, wait=0, lease='1m', **({shared})); grant = lock.acquire()")
    taker(f"lock = real.lock({name + '-lock'!r}, wait=0, lease='1m', **({shared}))")
    assert taker("lock.acquire()") is None
    token = giver("grant.token")
    giver("grant.release()")
    assert taker("lock.acquire().token") > token


# ── by the clock on the wall: seats and tokens ───────────────────────────────────────────────────────────────────────


def test_a_waiting_consumer_is_woken_by_a_job_of_the_other_version(pair: Pair) -> None:
    giver, taker = pair
    taker.begin("letters.pop(wait=20).body")
    giver("letters.add('tea')")
    assert taker.end() == "tea"


def test_seats_and_tokens_pass_between_versions(pair: Pair, start_version: Callable[[str], VersionProcess]) -> None:
    """Both wait for a job that is due soon, in both seats. The first is killed: the other promises to look."""
    third, second = pair
    first = start_version(third.version)
    third("letters.add('later', delay='2s')")
    third("letters.add('much later', delay='4s')")
    for hand in (first, second):
        hand.begin("job = letters.pop(wait=30, ttr='1s'); said = [job.body, job.lateness.total_seconds()]")
    first.kill()
    assert second.end() is None
    body, lateness = second("said")
    assert body == "later"
    assert lateness < 9.0, "a second, as the seats promise; ten would be a look-around, by nobody's promise"
    second("letters.finish(job)")
    second.begin("job = letters.pop(wait=30)")
    second.end()
    assert second("job.body") == "much later"
    assert third("letters.check().ok") is True


def test_a_last_attempt_in_one_version_is_the_last_in_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add('tea', id='a', max_attempts=1)")
    assert giver("topic.pop(ttr='10s').attempt") == 1
    advance(pair, "11s")
    assert taker("topic.pop() is None")
    assert both(pair, "[(job.id, job.attempts, job.reason) for job in topic.list('dead')]") == [
        ["a", 1, "attempts exhausted"]
    ]


def test_an_unconfirmed_last_attempt_is_popped_at_most_once_more_across_versions(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add('tea', id='a', max_attempts=1)")
    giver("from tarry.verbs.jobs.pop import pop_step")
    giver("lost = topic.engine.run(pop_step(topic.verbs.keys, 1, ttr=b'10000000', holder=b''))")
    advance(pair, "11s")
    assert taker("(job := topic.pop(ttr='10s')) is not None")
    advance(pair, "11s")
    assert taker("topic.pop() is None")
    assert both(pair, "[job.id for job in topic.list('dead')]") == ["a"]
    assert both(pair, "topic.check().ok") is True
