"""Keys and channels have the names that Redisson gives them."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from redisson.recorded import check_each, rows
from tarry.verbs.redisson import names

RULE = [
    # name, p + name, name + s, fits a Cluster
    ("a", "p:{a}", "{a}:s", True),
    ("a:b", "p:{a:b}", "{a:b}:s", True),
    ("a{b}", "p:a{b}", "a{b}:s", True),
    ("{a}b", "p:{a}b", "{a}b:s", True),
    ("a{b}c{d}", "p:a{b}c{d}", "a{b}c{d}:s", True),
    ("a{b", "p:a{b", "a{b:s", False),
    ("a{}b", "p:a{}b", "a{}b:s", False),
    ("}a{", "p:}a{", "}a{:s", False),
    ("a}b", "p:{a}b}", "{a}b}:s", False),
    ("", "p:{}", "{}:s", False),
    ("日本", "p:{日本}", "{日本}:s", True),
]


@pytest.mark.parametrize(("name", "prefixed", "suffixed", "_fits"), RULE)
def test_a_name_gets_braces_unless_it_has_one(name: str, prefixed: str, suffixed: str, _fits: bool) -> None:
    assert names.prefix_name("p", name) == prefixed
    assert names.suffix_name(name, "s") == suffixed


@pytest.mark.parametrize(("name", "_prefixed", "_suffixed", "fits"), RULE)
def test_a_name_fits_a_cluster_when_all_its_keys_share_a_slot(
    name: str, _prefixed: str, _suffixed: str, fits: bool
) -> None:
    assert names.fits_cluster(name) is fits


def test_queue_keys_equal_those_of_redisson() -> None:
    check_each(rows("offers"), lambda row: row["queue"], check_queue_keys)


def check_queue_keys(row: dict) -> None:
    ours = names.delayed_queue(row["queue"])
    assert row["keys"] == [ours.ready, ours.due, ours.order, ours.channel]
    assert (row["zset_key"], row["list_key"]) == (ours.due, ours.order)
    assert {message["channel"] for message in row["published"]} <= {ours.channel}


def test_map_cache_keys_and_channels_equal_those_of_redisson() -> None:
    for row in rows("map_cache_writes"):
        ours = set(astuple(names.map_cache(row["hash"])))
        assert {command[1] for command in row["zadd"] + row["zrem"]} <= ours
    channels = {row["channel"] for row in rows("map_cache_events")}
    caches = {names.map_cache(row["hash"]) for row in rows("map_cache_writes")}
    assert channels <= {name for cache in caches for name in astuple(cache)}


def test_a_name_mapper_applies_before_keys_are_derived() -> None:
    queue = names.delayed_queue("orders", lambda name: f"prod:{name}")
    assert queue == names.delayed_queue("prod:orders")
    assert names.map_cache("m", lambda name: f"{{t}}{name}").options == "{t}m:redisson_options"
