"""Two versions of tarry on one server: each continues with what the other has written."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from upgrade.conftest import VersionProcess, both

pytestmark = pytest.mark.slow
Pair = tuple[VersionProcess, VersionProcess]


def advance(pair: Pair, duration: str) -> None:
    both(pair, f"clock.advance({duration!r})")


def test_the_scripts_of_both_versions_differ(older_place: Path) -> None:
    def script(place: object, name: str) -> str:
        return (place / "lua" / name).read_text()  # type: ignore[operator]

    changed = {name: name for name in ("topic/pop.lua", "lib/watch.lua", "lib/receipt.lua")}
    changed["lib/plan.lua"] = "lib/schedule.lua"
    assert all(script(older_place / "tarry", old) != script(files("tarry"), new) for old, new in changed.items())


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
    taker("topic.release(raw, '1m', reason='no time\\nlater')")
    advance(pair, "12m")
    assert taker("[(job.id, job.attempt) for job in topic.pop_many(5)]") == [["raw", 2]]
    assert both(pair, "shown(topic.get('late'))")["reason"] == "stale"
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
    taker("topic.touch(job, '1h')")
    taker("topic.finish(job)")
    assert both(pair, "counts(topic)")["timed_out"] == 1
    assert both(pair, "topic.check().ok") is True


def test_dead_jobs_of_one_version_are_kicked_and_purged_by_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add_many(['a', 'b'])")
    giver("topic.bury_many(topic.pop_many(2), 'no use')")
    assert both(pair, "[job.reason for job in topic.list('dead')]") == ["no use", "no use"]
    assert taker("topic.kick(topic.list('dead').jobs[0].id)") == "dead"
    assert giver("topic.pop().attempt") == 1
    assert taker("topic.purge('dead')") == 1
    assert both(pair, "counts(topic)")["deleted"] == 1


def test_pause_limits_and_defaults_of_one_version_hold_for_the_other(pair: Pair) -> None:
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
    assert both(pair, "str(topic.stats().limited.why)") == "rate"


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


def test_partitions_of_the_older_version_are_found_by_the_newer(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """Their keys had other names then: those of a topic that was made so stay as they are."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    older("many = client.topic('many', partitions=4)")
    older("many.add_many(range(40)); many.add('mine', id='mine')")
    newer("many = client.topic('many')")
    assert both(pair, "counts(many)")["ready"] == 41
    assert newer("many.get('mine').body") == "mine"
    newer("many.add_many(range(20))")
    assert older("sum(len(many.pop_many(100)) for _ in range(4))") == 61
    assert newer.refused("client.topic('many', partitions=8).pop()") == "BadInput"
    assert both(pair, "many.check().ok") is True


def test_partitions_of_the_newer_version_are_refused_by_the_older(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    newer("many = client.topic('many', partitions=4)")
    newer("many.add_many(range(40))")
    for told in (
        "client.topic('many').pop()",
        "client.topic('many').add('tea')",
        "client.topic('many', partitions=4).stats()",
    ):
        assert older.refused(told)
    assert newer("counts(many)")["ready"] == 40


def test_a_migration_begun_by_one_version_is_finished_by_the_other(pair: Pair) -> None:
    giver, taker = pair
    giver("topic.add_many(range(450), delay='1h')")
    giver(
        "migrate = inner('tarry.verbs.jobs.migration:migrate', 'tarry.verbs.jobs.leaving:migrate'); "
        "plain = [getattr(verbs := client.topic(name).verbs, '_single', None) or verbs._plain for name in ('orders', 'orders-2')]"
    )
    giver("journey = migrate(plain[:1], plain[1:], dry_run=False, progress=None); side, request = next(journey)")
    giver(
        "while getattr(getattr(request, 'script', None), 'name', '') not in ('leaving/depart', 'migration/depart'): "
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
            "move_to_topic = inner('tarry.clients.migration:move_to_topic', 'tarry.clients.migrating:move_to_topic'); "
            "inside = getattr(queue.verbs, 'context', None) or queue.verbs.desk; "
            "flow = move_to_topic(inside, into.verbs); answer = None"
        )
        giver(
            f"for _ in range({steps}):\n    try: answer = client.engine.runner.perform(flow.send(answer))\n"
            "    except StopIteration: break"
        )
        taker("client.move_to_topic(queue, into)")
        assert both(pair, "into.stats().delayed") == 600
        assert both(pair, "queue.size()") == 0
        giver("queue.offer('one more', '1h')")
        assert giver("client.move_to_topic(queue, into).moved") == 1
        assert both(pair, "[into.stats().delayed, into.check().ok]") == [601, True]


def test_only_the_newer_version_refuses_to_redirect_a_begun_migration(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """0.1.0 does not say where its own goes, and goes on with a newer one's to wherever it is told."""
    older, newer = version_processes["older"], version_processes["newer"]
    both((older, newer), f"begin({namespace!r})")
    for name in ("orders", "orders-2", "orders-3"):
        newer(f"client.topic({name!r}).add(1, id={name!r}, delay='1h')")
    newer("from tarry.verbs.jobs import migration; plain = client.topic('orders').verbs._single")
    newer("destination = migration.Destination(b'elsewhere', b'shop/orders-9')")
    newer("client.engine.run(migration.depart(plain.keys, destination.departure_name(b'word'), migration.NOT_LATE))")
    assert newer.refused("client.migrate('orders', client.topic('orders-2'))") == "BadInput"
    assert both((older, newer), "client.topic('orders').check().ok") is True
    assert older("client.migrate('orders', client.topic('orders-3')).moved") == 1
    assert both((older, newer), "client.topic('orders-3').stats().delayed") == 2


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
    giver(f"lock = real.lock({name + '-lock'!r}, wait=0, lease='1m'); grant = lock.acquire()")
    taker(f"lock = real.lock({name + '-lock'!r}, wait=0, lease='1m')")
    assert taker("lock.acquire()") is None
    token = giver("grant.token")
    giver("grant.release()")
    assert taker("lock.acquire().token") > token


def test_elements_of_an_older_version_determine_the_queue_format(
    start_version: Callable[[str], VersionProcess], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on without being told, the older one beside it; and what was said lies under a key that the older one ignores."""
    monkeypatch.delenv("TARRY_REDISSON")
    older, newer = start_version("older"), start_version("newer")
    for hand in (older, newer):
        hand(
            f"queue = client.delayed_queue({'seen ' + namespace!r}); empty = client.delayed_queue({'empty ' + namespace!r})"
        )
        hand(f"old = client.delayed_queue({'old ' + namespace!r}, format='dLc0')")
    older("queue.offer(1, '1h')")
    older("old.offer(1, '1h')")
    assert newer.refused("empty.offer(1, '1h')") == "BadInput"
    newer("queue.offer(2, '1h')")
    newer("old.offer(2, '1h')")
    older("queue.offer(3, '1h')")
    older("old.offer(3, '1h')")
    for hand in (older, newer):
        assert hand("[queue.read_all(), old.read_all()]") == [[1, 2, 3], [1, 2, 3]]
    assert older("[queue.poll(9), old.poll(9)]") == [[1, 2, 3], [1, 2, 3]]
    assert newer("[queue.stats().format, old.stats().format, empty.stats().format]") == ["Bc0Lc0", "dLc0", None]
    newer("queue.offer(4, '1h'); old.offer(4, '1h')")
    older("queue.offer(5, '1h'); old.offer(5, '1h')")
    assert newer("[queue.poll(9), old.poll(9)]") == [[4, 5], [4, 5]]


NAMED = """
import asyncio
worker, done = tarry.Worker(client, name='shop'), []
@worker.task
async def charge(n: int) -> None:
    done.append(n)
async def work():
    await worker.run_until_idle()
    await worker.client.close()
asyncio.run(work())
"""


def test_an_application_that_gets_a_name_does_the_jobs_that_an_older_version_of_it_adds(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """The older one has no names: it adds to the topic `tasks`, and takes from it what the newer one puts back."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    older("tasks = client.topic('tasks'); tasks.add({'task': 'charge', 'args': {'n': 1}}, id='mine', max_attempts=1)")
    older("tasks.add({'task': 'ship', 'args': {}}, id='of another', max_attempts=1)")
    newer("client.topic('shop').add({'task': 'charge', 'args': {'n': 2}})")
    newer(NAMED)
    assert newer("sorted(done)") == [1, 2]
    assert older("tasks.get('mine')") is None
    newer("tasks = client.topic('tasks')")
    shown = both(pair, "shown(tasks.get('of another'))")
    assert (shown["state"], shown["attempts"]) == ("delayed", 0)
    assert shown["reason"].startswith("BodyError: nobody here knows task 'ship'")
    advance(pair, "1s")
    assert older("(job := tasks.pop()).attempt") == 1
    older("tasks.finish(job)")
    assert both(pair, "[counts(tasks)['dead'], tasks.check().ok]") == [0, True]


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
    first.process.kill()
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
    giver("pop = inner('tarry.verbs.jobs.pop:pop_step', 'tarry.verbs.jobs.taking:pop')")
    giver("lost = topic.engine.run(pop(topic.verbs.keys, 1, ttr=b'10000000', holder=b''))")
    advance(pair, "11s")
    heard_of = giver.version == "newer"
    assert taker("(job := topic.pop(ttr='10s')) is not None") is heard_of  # an older one has buried it
    advance(pair, "11s")
    assert taker("topic.pop() is None")
    assert both(pair, "[job.id for job in topic.list('dead')]") == ["a"]
    assert both(pair, "topic.check().ok") is True


def test_retrying_jobs_are_counted_right_again_once_their_moment_has_passed(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """The older version does not know that key: a job that it deletes or fails in back-off is counted wrongly until it is due."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    older("topic.add_many(list('abc'))")
    newer("a, b, c = topic.pop_many(3)")
    newer("topic.release_many([a, b], '1m')")
    older("topic.delete(topic.list('delayed').jobs[0].id)")
    older("topic.reschedule(topic.list('delayed').jobs[0].id, delay='2m')")
    assert newer("topic.stats().retrying") == 2
    assert newer("[job.id for job in topic.list('retrying')]") == [], "what is listed is right at once"
    assert newer("topic.purge('retrying')") == 0
    advance(pair, "61s")
    assert newer("topic.stats().retrying") == 0
    advance(pair, "1m")
    newer("topic.release(topic.pop(), '1m')")
    assert newer("topic.stats().retrying") == 1
    advance(pair, "1m")
    older("topic.finish(topic.pop())")
    assert newer("topic.stats().retrying") == 0
    assert both(pair, "topic.check().ok") is True


def test_an_older_version_finishes_jobs_of_a_topic_that_keeps_them(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """Its jobs are not kept, and nothing is wrong; those of the newer version stay as they are."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    newer("topic.configure(keep_finished='1h').keep_finished is not None")
    older("topic.configure(ttr=60) and 1")
    older("topic.add_many(['a', 'b'])")
    newer("topic.finish(topic.pop(), result=7)")
    older("topic.finish(topic.pop())")
    assert newer("[job.result for job in topic.list('finished')]") == [7]
    kept = newer("topic.list('finished').jobs[0].id")
    assert older(f"topic.get({kept!r}) is None")
    assert both(pair, "topic.stats().finished") == 2
    older(f"topic.add('again', id={kept!r})")
    assert newer(f"topic.get({kept!r}).state") == "ready"
    older("topic.finish(topic.pop())")
    assert newer(f"topic.get({kept!r}).result") == 7
    assert both(pair, "topic.check().ok") is True


def test_an_older_version_hands_out_jobs_with_a_priority_by_their_due_times(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """This one does not look at flags yet. Later ones set such a job aside, and `kick` makes it ready (tests/scripts/test_newer_versions.py)."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    older("topic.add_many(['a', 'b'])")
    newer("topic.add('urgent', priority=3); topic.add('more urgent', priority=3)")
    assert older("(job := topic.pop()).body") == "a"
    assert newer("(first := topic.pop()).body") == "urgent"
    assert older("[one.body for one in topic.pop_many(5)]") == ["b", "more urgent"]
    older("topic.finish(job)")
    advance(pair, "2m")
    assert newer("[job.body for job in topic.pop_many(5)]") == ["urgent", "more urgent", "b"]
    assert both(pair, "topic.check().ok") is True


def test_jobs_with_a_priority_that_an_older_version_has_moved_are_handed_out_once(
    version_processes: dict[str, VersionProcess], namespace: str
) -> None:
    """It knows no index: what it leaves there is skipped, and what it does not write there is handed out without its priority."""
    pair = older, newer = version_processes["older"], version_processes["newer"]
    both(pair, f"begin({namespace!r})")
    newer("from tarry import NewJob; topic.add_many([NewJob(n, id=n, priority=3) for n in 'abcd'], delay='1m')")
    newer("topic.add('plain', id='plain', delay='1m')")
    older("topic.delete('a')")
    older("topic.reschedule('b', delay='1h')")
    older("topic.reschedule('c', delay='2m')")
    older("topic.add('other', id='d', if_exists='replace', delay='61s')")
    advance(pair, "3m")
    assert newer("[job.id for job in topic.pop_many(5)]") == ["plain", "d", "c"]
    newer("topic.release_holder(topic.get('c').holder)")
    assert newer("topic.pop().id") == "c", "put back by a version that knows it, it has its priority again"
    advance(pair, "2h")
    older("topic.purge()")
    newer("topic.add('new', id='b')")
    assert newer("[job.body for job in topic.pop_many(5)]") == ["new"]
    assert both(pair, "topic.check().ok") is True
