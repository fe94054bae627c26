"""The seats of a map: one evictor, one deputy, and when each looks."""

from __future__ import annotations

from typing import Any

from redisson.mapcache.evictor_step import step
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson.duties import DutyList
from tarry.verbs.redisson.mapcache.eviction import DEPUTY, EVICTOR, AdaptivePolicy, EvictedMap, SweptMap
from until import LONGEST_S


def test_a_map_has_one_evictor_and_one_deputy(valkey_url: str, name: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        seats = [step(client, name, b"%d" % i).seat for i in range(5)]
        assert seats == [EVICTOR, DEPUTY, 0, 0, 0]
        client.clock.advance(1)
        assert [step(client, name, b"%d" % i).seat for i in range(5)] == seats


def test_a_dead_evictor_is_replaced_by_its_deputy(valkey_url: str, name: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        step(client, name, b"dead")
        deputy = step(client, name, b"deputy")
        assert 5_000_000 < deputy.wait <= 6_100_000
        client.clock.advance(deputy.wait / 1e6)
        client.map_cache(name, codec="string", policy=None).put("a", "1", ttl=1)
        client.clock.advance(1)
        done = step(client, name, b"deputy")
        assert (done.seat, done.evicted) == (EVICTOR, 1)


def test_a_late_evictor_loses_its_seat(valkey_url: str, name: str, server: Any) -> None:
    with TestClient(valkey_url, Clock()) as client:
        step(client, name, b"me")
        cache = client.map_cache(name, policy=None)
        assert cache.stats().evictors == 1
        client.clock.advance(7)
        assert cache.stats().evictors == 0
        assert 0 < server.pttl(f"tarry:shared:{{{name}}}:evictors") <= 60_000


def test_the_evictor_wakes_when_the_next_entry_expires(valkey_url: str, name: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        cache.put("a", "1", ttl=3)
        cache.put("b", "1", max_idle="2.5s")
        assert step(client, name, b"me").wait == 2_500_000
        client.clock.advance("2.5s")
        assert step(client, name, b"me").evicted == 1
        cache.clear()
        assert step(client, name, b"me").wait == 5_000_000


def test_an_entry_that_expires_sooner_wakes_the_evictor_once(valkey_url: str, name: str, server: Any) -> None:
    hints = f"tarry:shared:{{{name}}}:hints"
    with TestClient(valkey_url, Clock()) as client, server.pubsub() as listener:
        listener.subscribe(hints)
        listener.get_message(timeout=LONGEST_S)
        cache = client.map_cache(name, codec="string", policy=None)
        step(client, name, b"me")
        cache.put("a", "1", ttl=60)
        cache.put("b", "1", ttl=3)
        cache.put("c", "1", ttl=4)
        cache.expire_entry("a", ttl=2)
        server.publish(hints, "end")
        said = [listener.get_message(timeout=LONGEST_S)["data"] for _ in range(3)]
    now = client.clock.us // 1000
    assert said == [b"due%d" % (now + 3000), b"due%d" % (now + 2000), b"end"]


def run_duty(client: TestClient, keeper: DutyList) -> int:
    """Looks at the maps that are due; answers how many."""
    due = keeper.due(client.clock.seconds())
    for kept in due:
        keeper.on_answer(kept, client.engine.run(kept.request), client.clock.seconds())
    return len(due)


def test_idle_maps_end_up_sharing_one_round_trip(valkey_url: str, name: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        keeper, rounds = DutyList(), list[int]()
        for number in range(5):
            keeper.add(EvictedMap(client.map_cache(f"{name}-{number}", policy=None).verbs.context, b"me"))
            run_duty(client, keeper)
            client.clock.advance(1)
        for _ in range(6):
            client.clock.pass_until(keeper.next_due())
            rounds.append(run_duty(client, keeper))
        assert rounds[-3:] != [1, 1, 1]
        assert 5 in rounds or sum(rounds[-2:]) == 5, rounds


def test_foreign_messages_do_not_change_the_next_wake_up(valkey_url: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        context = client.map_cache("words", policy=None).verbs.context
        keeper, kept = DutyList(), EvictedMap(context, b"me")
        keeper.add(kept)
        run_duty(client, keeper)
        before = kept.alarm
        assert before is not None
        for word in (b"due", b"duesoon", b"due-5", b"key", b"\xff" * 9):
            keeper.on_message(context.keys.hints, word)
        keeper.on_message(b"other", b"due5")
        assert kept.alarm == before
        keeper.on_message(context.keys.hints, b"due5")
        assert kept.alarm == 0.0


def test_a_hint_during_an_eviction_of_several_steps_is_not_lost(valkey_url: str, name: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        cache.put_all({str(i): "x" for i in range(300)}, ttl=1)  # two steps
        client.clock.advance(1)
        keeper, kept = DutyList(), EvictedMap(cache.verbs.context, b"me")
        keeper.add(kept)
        run_duty(client, keeper)
        assert kept.flow is not None
        keeper.on_message(cache.verbs.keys.hints, b"due5")
        while kept.flow is not None:
            run_duty(client, keeper)
        assert keeper.next_due() == 0.0


def test_errors_delay_the_evictor_more_and_more_without_changing_its_pace(valkey_url: str) -> None:
    with TestClient(valkey_url, Clock()) as client:
        context = client.map_cache("errors", policy=None).verbs.context
        kept = EvictedMap(context, b"me")
        waits = []
        for _ in range(8):
            kept.failed(0.0)
            waits.append(kept.alarm)
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        slow = SweptMap(context, AdaptivePolicy(minimum=7), 0.0)
        assert slow.alarm == 7.0
        slow.failed(1.0)
        assert slow.alarm == 8.0
