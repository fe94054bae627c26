"""The users that a server is to have: what each role may run, and the keys and channels that it may touch.

    producer    adds, looks up, reschedules, deletes; never takes a job
    consumer    all that a topic can; a worker
    all         the service, its dashboard and the command line; queues, maps and locks that are shared with Java

The commands are worked out from the scripts, the keys from what names them. No role may ask what shows more than its own:
``CONFIG GET`` shows passwords; ``SCAN`` and ``CLIENT TRACKING`` show the names of everybody's keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, get_args

from tarry.core.scripts import Script
from tarry.values import keys
from tarry.verbs import tokens, workers
from tarry.verbs.delayed import bulk_transfer, elements, migration, offers, poll, stats, transfer
from tarry.verbs.guarded import guarded_scripts
from tarry.verbs.jobs import add, aggregates, by_id, holders, partitions, settings, settle, views
from tarry.verbs.jobs import migration as departing
from tarry.verbs.jobs import pop as popping
from tarry.verbs.locks import lock_scripts
from tarry.verbs.mapcache import eviction, evictor_state, load, redisson_layout, replies
from tarry.verbs.redisson import names
from tarry.verbs.schedules import definitions as schedules
from tarry.verbs.schedules import migration as planning
from tarry.verbs.schedules import occurrences

Role = Literal["producer", "consumer", "all"]
ROLES: tuple[Role, ...] = get_args(Role)
NATIVE = frozenset({"hpexpire", "hpersist", "hpttl"})
"""Of maps with ``backend="native"``, which older servers do not know."""
NEWER = {"spublish": (7, 0), "ssubscribe": (7, 0), "sunsubscribe": (7, 0)}
"""Commands that Redis has only since then; a line that names one is refused by an older server."""

_CONNECTED = "client|setname info eval evalsha ping wait cluster|slots"
_WAITED = "blpop lpop llen client|id client|unblock"
_TOPICS = "sadd smembers zcount"
_SHARED = (
    "hincrbyfloat zincrby subscribe unsubscribe ssubscribe sunsubscribe publish spublish pubsub|numsub watch unwatch "
    "multi exec memory|usage expire lindex llen lpos lpush lrange rpush unlink zcard zscore hgetall hlen"
)
_PRODUCES = (add, by_id, views, aggregates, partitions, schedules)
_CONSUMES = (*_PRODUCES, popping, holders, settle, settings, departing, planning, workers, occurrences)
_EVERYTHING = (
    *_CONSUMES, tokens, elements, migration, transfer, offers, bulk_transfer, poll, stats, guarded_scripts, lock_scripts, eviction, evictor_state,
    redisson_layout, load, replies,
)  # fmt: skip
_ANY = "\x00"
"""Stands in a name for whatever follows there: no name has it."""


def line(role: Role, namespace: str, objects: str = "", version: tuple[int, ...] = (), also: Sequence[str] = ()) -> str:
    """The role's line for ``ACL SETUSER``, or for an ACL file behind the word ``user``.

    ``objects``: how the names of queues, maps and locks begin that are shared with Java; the namespace, if nothing is said.
    ``version``: of a Redis that is older than 7. ``also``: other namespaces that it works in. Raises ``BadInput`` for what is
    no namespace.
    """
    objects = objects or namespace
    found = [key for name in (namespace, *also) for key in _keys(role, name, objects)]
    heard = [channel for name in (namespace, *also) for channel in _channels(name, objects)] if role == "all" else []
    patterns = [f"~{_glob(key)}" for key in dict.fromkeys(found)]
    channels = [f"&{_glob(channel)}" for channel in dict.fromkeys(heard)]
    known = [name for name in sorted(commands(role)) if not version or version >= NEWER.get(name, (0,))]
    return " ".join([role, "on", ">secret", "resetkeys", *patterns, "resetchannels", *channels, "-@all", *_plus(known)])


@cache
def commands(role: Role) -> frozenset[str]:
    """What it runs: of the scripts of its verbs, and of what goes without a script."""
    modules, plain = {
        "producer": (_PRODUCES, (_CONNECTED, _TOPICS)),
        "consumer": (_CONSUMES, (_CONNECTED, _TOPICS, _WAITED)),
        "all": (_EVERYTHING, (_CONNECTED, _TOPICS, _WAITED, _SHARED)),
    }[role]
    scripts = [found for module in modules for found in vars(module).values() if isinstance(found, Script)]
    run = {name.decode().lower() for script in scripts for name in script.commands}
    return frozenset((run | set(" ".join(plain).split())) - NATIVE)


def _plus(known: list[str]) -> list[str]:
    return [f"+{name}" for name in known]


def _keys(role: Role, namespace: str, objects: str) -> list[str]:
    """The tokens of the service are only for who runs it: whoever may write them may let himself in."""
    topic = keys.topic_keys(namespace, "t").due.removesuffix(b"t}:due").decode() + _ANY
    found = [topic, keys.topics_key(namespace).decode()]
    if role != "producer":
        found.append(keys.worker_keys(namespace).workers.removesuffix(b"workers").decode() + _ANY)
    if role == "all":
        inside = [
            *_shared_keys(objects),
            *_channels(namespace, objects)[1:],
        ]  # scripts are given channels as they are given keys
        found.append(keys.tokens_key(namespace).decode())
        found += [objects + _ANY, *(key for key in inside if not key.startswith(objects))]
    return found


def _names(objects: str) -> tuple[str, str]:
    """Redisson names what belongs to an object in another way when the object's name has a brace."""
    return objects + _ANY, objects + _ANY + "{" + _ANY


def _shared_keys(objects: str) -> list[str]:
    found = [keys.ARTICLE_PREFIX + objects + _ANY]
    for name in _names(objects):
        queue, map, lock = names.delayed_queue(name), names.map_cache(name), names.lock(name)
        ours, article = names.prefix_name("tarry", name), names.prefix_name("tarry", keys.ARTICLE_PREFIX + name)
        found += [queue.order, queue.due, lock.token]
        found += [map.timeouts, map.idles, map.accesses, map.options, map.latch, map.leases + _ANY]
        found += [
            f"{ours}:{part}"
            for part in ("poison", "movers", "format", "leaving", "departed", "evictors", f"answer:{_ANY}")
        ]
        found += [f"{article}:{part}" for part in ("fence", "polled")]
    return found


def _channels(namespace: str, objects: str) -> list[str]:
    found = [keys.guarded_keys(namespace, "t").channel.decode().replace("/t}", f"/{_ANY}}}")]
    for name in _names(objects):
        queue, map, lock = names.delayed_queue(name), names.map_cache(name), names.lock(name)
        found += [queue.channel, map.created, map.updated, map.removed, map.expired]
        found += [lock.channel, keys.holders_channel(keys.lock_keys("", "", lock.channel)).decode()]
        found.append(names.prefix_name("tarry", name) + ":hints")
        found.append(names.prefix_name("tarry", keys.ARTICLE_PREFIX + name) + ":pushed")
    return found


def _glob(name: str) -> str:
    """A pattern of an ACL: it has no blanks, and what is special in a name is taken as it is."""
    return re.sub(r"\s", "?", re.sub(r"([\\*?\[\]])", r"\\\1", name)).replace(_ANY, "*")
