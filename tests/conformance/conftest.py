"""Conformance: every verb of every feature on each kind of server, by both clients, and by the command line.

Run:  ``.venv/bin/python -m pytest tests/conformance``; ``-m "not otherserver"`` is the single server alone.
Give: a story, ``async def schedules(world: Environment)``, in jobs.py or queues.py: one text for both clients. It takes handles from
      ``world.client``, awaits their verbs, and asserts. It goes by real time, and waits where the next thing is a moment away.
Get:  the story runs in a namespace of its own on each server of PLACES. On the single server the test fails for a public verb of
      the handles in its row that the story has not called, and ``test_the_table_has_every_handle`` for a handle without a row.
Add:  a verb is called in the story of its handle. A feature is a story and a row of TABLE (test_stories.py).
      A verb of the command line is called in test_command_line.py.
      A kind of server is a name in PLACES, here and in test_stories.py, that the fixture ``constellation`` can start.
"""

from __future__ import annotations

import pytest

ALONE = "valkey"
PLACES = [
    ALONE,
    *(
        pytest.param(place, marks=[pytest.mark.otherserver, pytest.mark.slow])
        for place in ("cluster of valkey", "sentinels of valkey")
    ),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, place: str) -> str:
    if place == ALONE:
        return str(request.getfixturevalue("valkey_url"))
    return str(request.getfixturevalue("constellation")(place).url)
