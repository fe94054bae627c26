"""A running process says what has changed at its server: each change once, and when it is undone."""

from __future__ import annotations

import pytest

from tarry.connections.server_changes import ServerChanges

GOOD = {"maxmemory_policy": "noeviction", "aof_enabled": "1", "role": "master"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("maxmemory_policy", "allkeys-random", "maxmemory-policy was changed from noeviction to allkeys-random"),
        ("maxmemory_policy", "volatile-lru", "maxmemory-policy was changed from noeviction to volatile-lru"),
        ("aof_enabled", "0", "append-only file was switched off"),
        ("role", "slave", "has become a replica"),
    ],
)
def test_a_change_for_the_worse_is_logged_once_and_when_it_is_undone(
    field: str, value: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes = ServerChanges()
    for info in (GOOD, {**GOOD, field: value}, {**GOOD, field: value}, {}):
        changes.note("localhost:1", info)
    assert [words in record.getMessage() for record in caplog.records] == [True]
    assert words in changes.problems[0]
    changes.note("localhost:1", GOOD)
    assert changes.problems == ()
    assert len(caplog.records) == 2
    assert f"its {field} is {GOOD[field]} again" in caplog.messages[1]


def test_a_server_that_was_so_at_the_first_look_is_not_said_to_have_changed(caplog: pytest.LogCaptureFixture) -> None:
    changes = ServerChanges()
    changes.note("localhost:1", {**GOOD, "aof_enabled": "0"})
    changes.note("localhost:2", GOOD)
    changes.note("localhost:1", {**GOOD, "aof_enabled": "0"})
    assert (changes.problems, caplog.records) == ((), [])
    changes.note("localhost:1", GOOD)
    changes.note("localhost:1", {**GOOD, "aof_enabled": "0"})
    assert len(changes.problems) == 1, "it had been switched on meanwhile"


def test_what_no_process_starts_with_has_changed_before_the_first_look() -> None:
    changes = ServerChanges()
    changes.note("localhost:1", {**GOOD, "maxmemory_policy": "allkeys-lru", "role": "slave"})
    assert len(changes.problems) == 2
