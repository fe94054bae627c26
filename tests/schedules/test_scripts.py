"""The scripts of schedules declare their keys and arguments, and keep the field that pop relies on."""

from __future__ import annotations

import pytest

from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.clients.testing import Clock, TestClient
from tarry.values.keys import FIRING_PARTS, KEY_PARTS, SCHEDULE_PARTS, keys_of_parts
from tarry.verbs.schedules import definitions
from tarry.verbs.schedules import fire as occurrences

BOUND = scripts_of(occurrences, definitions)
NAMES = names_in("schedules")


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    parts = (*FIRING_PARTS, *KEY_PARTS) if name == "schedules/fire" else SCHEDULE_PARTS
    assert f"local {', '.join(parts)} = unpack(KEYS)" in text
    assert "tarry:" not in text
    for command, key in keys_used(BOUND[name]):
        assert key in {*parts, "list", "set", "INDEXES[priority]", "index"}, f"{command} {key}"


def test_the_topic_always_stores_its_next_schedule_time(valkey_url: str) -> None:
    clock = Clock()
    with TestClient(valkey_url, clock, namespace="schedule-heads") as client:
        topic, schedules = client.topic("t"), client.schedules
        keys = keys_of_parts(SCHEDULE_PARTS)(topic.verbs.keys)
        import redis

        with redis.Redis.from_url(valkey_url) as server:

            def next_occurrence_is_noted() -> bool:
                head = server.zrange(keys[-3], 0, 0, withscores=True)
                fires = server.hget(topic.verbs.keys.meta, "fires")
                return (int(head[0][1]) if head else None) == (int(fires) if fires else None)

            assert next_occurrence_is_noted()
            for act in (
                lambda: schedules.put("t", "a", every=60),
                lambda: schedules.put("t", "b", every=30),
                lambda: schedules.pause("t", "b"),
                lambda: schedules.resume("t", "b"),
                lambda: clock.advance(45),
                topic.pop,
                lambda: schedules.put("t", "b", cron="0 0 1 1 *"),
                lambda: clock.advance(45),
                topic.pop,
                topic.purge,
                lambda: schedules.delete("t", "a"),
                lambda: schedules.delete("t", "b"),
            ):
                act()
                assert next_occurrence_is_noted()
            assert not server.exists(*keys[-3:])
