"""ACL users for the server: the commands that each role may run, and its keys and channels.

    producer    adds, looks up, reschedules, deletes; cannot wait for jobs
    consumer    all that a topic can; a worker
    all         the service, its dashboard and the command line; queues, maps and locks that are shared with Java

The commands are computed from the scripts, the keys from ``tarry.values.keys`` and Redisson's names. No role gets commands that
show more than its own data: ``CONFIG GET`` shows passwords; ``SCAN`` and ``CLIENT TRACKING`` show the names of all keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, get_args

from tarry.core.scripts import Script
from tarry.values import keys
from tarry.verbs import liveness, tokens, workers
from tarry.verbs.guarded import guarded_scripts
from tarry.verbs.jobs import (
    add,
    by_id,
    by_key,
    ends,
    holders,
    partitions,
    pop,
    settings,
    settle,
    steps,
    throughput,
    views,
)
from tarry.verbs.jobs import topic_migration as job_migration
from tarry.verbs.locks import lock_scripts
from tarry.verbs.redisson import names
from tarry.verbs.redisson.delayed import elements, offers, stats, transfer
from tarry.verbs.redisson.delayed import queue_migration as migration
from tarry.verbs.redisson.mapcache import eviction, load, redisson_layout
from tarry.verbs.schedules import definitions as schedules
from tarry.verbs.schedules import fire as occurrences
from tarry.verbs.schedules import schedule_migration

Role = Literal["producer", "consumer", "all"]
ROLES: tuple[Role, ...] = get_args(Role)
NATIVE = frozenset({"hpexpire", "hpersist", "hpttl"})
"""For maps with ``backend="native"`` or ``"redisson-native"``; older servers do not know these commands."""
SINCE = {"spublish": (7, 0), "ssubscribe": (7, 0), "sunsubscribe": (7, 0)}
"""The Redis version that brought a command; an older server refuses a line with it."""

_CONNECTED = "client|setname info eval evalsha ping wait cluster|slots"
_WAITED = "blpop lpop llen client|id client|unblock"
_LIVENESS = "subscribe unsubscribe ssubscribe sunsubscribe publish pubsub|numsub"
_TOPICS = "sadd scard smembers zcount publish spublish"
_SHARED = "hincrbyfloat zincrby spublish watch unwatch multi exec memory|usage expire lindex llen lpos lpush lrange rpush unlink zcard zscore hgetall hlen incrby"
_PRODUCER_MODULES = (add, by_id, by_key, ends, views, throughput, partitions, schedules)
_CONSUMER_MODULES = (
    *_PRODUCER_MODULES, pop, holders, settle, steps, settings, job_migration, schedule_migration, workers, liveness, occurrences,
)  # fmt: skip
_ALL_MODULES = (
    *_CONSUMER_MODULES, tokens, elements, migration, transfer, offers, stats, guarded_scripts, lock_scripts, eviction,
    redisson_layout, load,
)  # fmt: skip
_ANY = "\x00"
"""A wildcard in a name; no name contains this character."""


def line(role: Role, namespace: str, objects: str = "", version: tuple[int, ...] = (), also: Sequence[str] = ()) -> str:
    """The role's line for ``ACL SETUSER``, or for an ACL file behind the word ``user``.

    ``objects``: the prefix of queues, maps and locks that are shared with Java; by default the namespace. ``version``: of a
    Redis older than 7. ``also``: further namespaces. Raises ``BadInput`` for a bad namespace.
    """
    objects = objects or namespace
    found = [key for name in (namespace, *also) for key in _keys(role, name, objects)]
    heard_channels = [channel for name in (namespace, *also) for channel in _channels(role, name, objects)]
    patterns = [f"~{_glob(key)}" for key in dict.fromkeys(found)]
    channels = [f"&{_glob(channel)}" for channel in dict.fromkeys(heard_channels)]
    known = [name for name in sorted(commands(role)) if not version or version >= SINCE.get(name, (0,))]
    return " ".join([role, "on", ">secret", "resetkeys", *patterns, "resetchannels", *channels, "-@all", *_plus(known)])


@cache
def commands(role: Role) -> frozenset[str]:
    """The commands of a role: those of its verbs' scripts, and those that are sent without a script."""
    modules, plain = {
        "producer": (_PRODUCER_MODULES, (_CONNECTED, _TOPICS)),
        "consumer": (_CONSUMER_MODULES, (_CONNECTED, _TOPICS, _WAITED, _LIVENESS)),
        "all": (_ALL_MODULES, (_CONNECTED, _TOPICS, _WAITED, _LIVENESS, _SHARED)),
    }[role]
    scripts = [found for module in modules for found in vars(module).values() if isinstance(found, Script)]
    run = {name.decode().lower() for script in scripts for name in script.commands}
    return frozenset((run | set(" ".join(plain).split())) - NATIVE)


def _plus(known: list[str]) -> list[str]:
    return [f"+{name}" for name in known]


def _keys(role: Role, namespace: str, objects: str) -> list[str]:
    """The key patterns of a role. Only ``all`` may access the service's tokens: writing them gives access to the service."""
    topic = keys.topic_keys(namespace, "t").due.removesuffix(b"t}:due").decode() + _ANY
    found = [topic, keys.topics_key(namespace).decode()]
    if role != "producer":
        found.append(keys.worker_keys(namespace).workers.removesuffix(b"workers").decode() + _ANY)
    if role == "all":
        internal = [
            *_shared_keys(objects),
            *_shared_channels(objects),
        ]  # scripts are given channels in KEYS
        found += [keys.tokens_key(namespace).decode(), keys.numbers_key(namespace).decode()]
        found += [objects + _ANY, *(key for key in internal if not key.startswith(objects))]
    return found


def _names(objects: str) -> tuple[str, str]:
    """Redisson names the keys of an object differently when the object's name contains a brace."""
    return objects + _ANY, objects + _ANY + "{" + _ANY


def _shared_keys(objects: str) -> list[str]:
    found = [keys.JAVA_PREFIX + objects + _ANY]
    for name in _names(objects):
        queue, map, lock = names.delayed_queue(name), names.map_cache(name), names.lock(name)
        ours, javas = names.prefix_name(keys.SHARED, name), names.prefix_name(keys.SHARED, keys.JAVA_PREFIX + name)
        found += [queue.order, queue.due, lock.token]
        found += [map.timeouts, map.idles, map.accesses, map.options, map.latch, map.leases + _ANY]
        found += [
            f"{ours}:{part}"
            for part in ("poison", "movers", "format", "leaving", "departed", "evictors", f"answer:{_ANY}")
        ]
        found += [f"{javas}:{part}" for part in ("fence", "polled")]
    return found


def _channels(role: Role, namespace: str, objects: str) -> list[str]:
    topics = keys.topics_key(namespace).decode()
    if role == "producer":
        return [topics]
    holders = keys.holder_channel(namespace, _ANY.encode()).decode()
    finished = keys.finished_channel(keys.topic_keys(namespace, "t")).decode().replace("/t}", f"/{_ANY}}}")
    if role == "consumer":
        return [topics, holders, finished]
    lock = keys.lock_keys(namespace, "t")
    map_hints = keys.own_map_keys(namespace, "t").hints
    of_names = (keys.guarded_keys(namespace, "t").channel, lock.channel, keys.holders_channel(lock), map_hints)
    own = [channel.decode().replace("/t}", f"/{_ANY}}}") for channel in of_names]
    return [topics, holders, finished, *own, *_shared_channels(objects)]


def _shared_channels(objects: str) -> list[str]:
    found: list[str] = []
    for name in _names(objects):
        queue, map, lock = names.delayed_queue(name), names.map_cache(name), names.lock(name)
        found += [queue.channel, map.created, map.updated, map.removed, map.expired]
        found += [lock.channel, keys.holders_channel(keys.shared_lock_keys("", "", lock.channel)).decode()]
        found.append(names.prefix_name(keys.SHARED, name) + ":hints")
        found.append(names.prefix_name(keys.SHARED, keys.JAVA_PREFIX + name) + ":pushed")
    return found


def _glob(name: str) -> str:
    """A pattern for an ACL line: blanks become ``?``, special characters of a name are escaped."""
    return re.sub(r"\s", "?", re.sub(r"([\\*?\[\]])", r"\\\1", name)).replace(_ANY, "*")
