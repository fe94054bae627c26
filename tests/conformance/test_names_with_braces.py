"""Names with braces break hash tags. Ours are refused anywhere; those that Java chooses are kept as Redisson keeps them,
and refused on a Cluster where their keys would lie in several slots."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from conformance.environment import Environment, perform

pytestmark = pytest.mark.otherserver
PLACES = ["cluster of valkey", "sentinels of valkey"]
FACES = ["sync", "async"]
BROKEN = ["a{b", "a}b", "{", "{}", "a{}b", "{a}{b}"]
APART = ["a{b", "{", "a{}b", "a}b"]
"""Redisson leaves a name with a ``{`` as it is, so each key of these is its own hash tag; braces around the last end early."""
TOGETHER = ["a{b}", "{a}b", "{a}{b}", "{a}{"]
_numbers = itertools.count()

OURS: dict[str, Callable[[Environment, str], Any]] = {
    "topics": lambda world, name: world.client.topic(name).add(1),
    "schedules": lambda world, name: world.client.schedules.put(name, "often", every="1h"),
    "guarded queues": lambda world, name: world.client.guarded_queue(name).push({"a": 0}),
    "the java layout's queues": lambda world, name: world.client.guarded_queue(name, layout="java").push({"a": 0}),
    "locks": lambda world, name: world.client.lock(name).acquire(wait=0),
}
SHARED: dict[str, Callable[[Environment, str], Any]] = {
    "delayed queues": lambda world, name: world.client.delayed_queue(name, codec="string").offer("tea", "1h"),
    "blocking queues": lambda world, name: world.client.blocking_queue(name, codec="string").put("tea"),
    "movers": lambda world, name: world.client.keep_moving(name),
    "map caches": lambda world, name: world.client.map_cache(name, codec="string").put(
        "tea", "green", ttl=9, max_idle=9
    ),
    "locks": lambda world, name: world.client.lock(name, shared=True).acquire(wait=0),
}


def run_story(client_kind: str, url: str, story: Any) -> None:
    perform(Environment(client_kind, url, f"braces-{next(_numbers)}").run_story(story))


@pytest.mark.parametrize("client_kind", FACES)
@pytest.mark.parametrize("feature", OURS)
@pytest.mark.parametrize("place", PLACES)
def test_our_names_with_braces_are_refused(constellation: Any, place: str, feature: str, client_kind: str) -> None:
    async def story(world: Environment) -> None:
        for name in BROKEN:
            with pytest.raises(tarry.BadInput, match=r"delimit hash tags"):
                await OURS[feature](world, name)

    run_story(client_kind, constellation(place).url, story)


@pytest.mark.parametrize("client_kind", FACES)
@pytest.mark.parametrize("feature", SHARED)
def test_shared_names_with_keys_in_several_slots_are_refused_on_a_cluster(
    constellation: Any, feature: str, client_kind: str
) -> None:
    async def story(world: Environment) -> None:
        for name in APART:
            with pytest.raises(tarry.BadInput, match="several slots"):
                await SHARED[feature](world, name)

    run_story(client_kind, constellation(PLACES[0]).url, story)


@pytest.mark.parametrize("client_kind", FACES)
@pytest.mark.parametrize("feature", SHARED)
@pytest.mark.parametrize("place", PLACES)
def test_shared_names_with_braces_follow_redisson(
    constellation: Any, place: str, feature: str, client_kind: str
) -> None:
    async def story(world: Environment) -> None:
        for name in TOGETHER + (APART if place == PLACES[1] else []):
            await SHARED[feature](world, f"{feature} {client_kind} {world.name} {name}")

    run_story(client_kind, constellation(place).url, story)
