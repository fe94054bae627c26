"""Every verb of every feature, blocking and awaited, on each kind of server: one table, and one story for all of its places.

The first column is the single server: there, a verb that its story forgets is a failure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from conformance import jobs, queues
from conformance.conftest import ALONE
from conformance.environment import Environment, perform, verbs_of

PLACES = {
    "cluster of valkey": "sync async",
    "sentinels of valkey": "sync async",
    "cluster of redis7": "sync",
    "sentinels of redis7": "sync",
    "cluster of redis8": "async",
    "sentinels of redis8": "async",
}
"""Of a second kind of server one client is enough: a server does not see which it is."""
LATER = {"sentinels of redis7", "cluster of redis8"}
"""In the short run each version is one of a kind: what stories meet is the version, or the kind."""
COLUMNS = [
    (ALONE, "sync"),
    (ALONE, "async"),
    *(
        pytest.param(place, client_kind, marks=[pytest.mark.otherserver, *[pytest.mark.long] * (place in LATER)])
        for place, client_kinds in PLACES.items()
        for client_kind in client_kinds.split()
    ),
]
TABLE: dict[str, tuple[Callable[[Environment], Any], tuple[type, ...]]] = {
    "topics": (jobs.topics, (tarry.Topic, tarry.Job, tarry.types.Ends)),
    "partitions": (jobs.partitions, ()),
    "limits": (jobs.limits, ()),
    "schedules": (jobs.schedules, (tarry.Schedules,)),
    "clients": (jobs.clients, (tarry.Client,)),
    "delayed queues": (
        queues.delayed_queues,
        (tarry.redisson.DelayedQueue, tarry.redisson.BlockingQueue, tarry.redisson.Subscription),
    ),
    "movers": (queues.movers, ()),
    "map caches": (queues.map_caches, (tarry.redisson.MapCache, tarry.redisson.MapDict, tarry.redisson.MapListener)),
    "native maps": (queues.native_maps, ()),
    "locks": (queues.locks, (tarry.Lock, tarry.Grant, tarry.types.LockLostEvent)),
    "guarded queues": (queues.guarded_queues, (tarry.types.GuardedQueue,)),
}
_numbers = itertools.count()


@pytest.mark.parametrize("feature", TABLE)
@pytest.mark.parametrize(("place", "client_kind"), COLUMNS)
def test_every_verb_of_every_feature_works(place: str, feature: str, client_kind: str, url: str) -> None:
    story, handles = TABLE[feature]
    world = Environment(client_kind, url, f"everywhere-{next(_numbers)}")
    perform(world.run_story(story))
    if feature == "native maps":
        assert ("clear" in world.said["MapCache"]) == (not place.endswith("redis7")), "told all, or refused at once"
    if place == ALONE:
        untold = {kind: verbs - world.said[kind] for kind, verbs in verbs_of(*handles).items()}
        assert not {kind: verbs for kind, verbs in untold.items() if verbs}, "verbs that the story does not say"


def test_the_table_has_every_handle() -> None:
    """Whatever a client makes, and what that gives back to be used."""
    handles = {kind for _, kinds in TABLE.values() for kind in kinds}
    public = [getattr(home, name) for home in (tarry, tarry.types, tarry.redisson) for name in home.__all__]
    homes = ("tarry.clients.blocking.", "tarry.clients.redisson.blocking.")
    made = {
        kind
        for kind in public
        if isinstance(kind, type) and kind.__module__.startswith(homes) and any(verbs_of(kind).values())
    }
    protocols = {tarry.types.Guard}
    assert made - protocols == handles
