"""Every key that tarry writes, in one table. Nothing else in the project spells a key.

    tarry:{NAMESPACE/TOPIC}:due        sorted set   id → when it is due, server µs          delayed and ready jobs
    tarry:{NAMESPACE/TOPIC}:reserved   sorted set   id → end of its TTR, server µs          jobs somebody works on
    tarry:{NAMESPACE/TOPIC}:dead       sorted set   id → when it died, server µs            jobs set aside
    tarry:{NAMESPACE/TOPIC}:jobs       hash         id → head + body                        written once
    tarry:{NAMESPACE/TOPIC}:runs       hash         id → attempt, receipt, holder, fault    only once handed out
    tarry:{NAMESPACE/TOPIC}:meta       hash         last receipt, pause, defaults, limits, counters, lateness
    tarry:{NAMESPACE/TOPIC}:stale      hash         id → created, the highest receipt that came too late   a minute, of few that have gone
    tarry:{NAMESPACE/TOPIC}:watch      sorted set   consumer → when it promised to look     the seats of the watch
    tarry:{NAMESPACE/TOPIC}:wake       list         at most one token: nobody has promised to look in time
    tarry:{NAMESPACE/TOPIC}:relay      list         at most one token: one has, but there is no second
    tarry:{NAMESPACE/TOPIC}:schedules  sorted set   schedule → its next occurrence, server µs   but for paused ones
    tarry:{NAMESPACE/TOPIC}:plans      hash         schedule → rhythm, job, counts
    tarry:{NAMESPACE/TOPIC}:declared   hash         schedule → when, and which version, code said of it
    tarry:{NAMESPACE/TOPIC}:leaving    hash         id → the place it had; '' → departure   only while `migrate` runs
    tarry:{NAMESPACE/TOPIC}:arrived    hash         place → its last departure, the answers   for a month after `migrate`
    tarry:{NAMESPACE/TOPIC}:moving     hash         schedule → departure, next, plan        only while `migrate` runs
    tarry:{NAMESPACE/TOPIC}:moved      hash         schedule, place → its last departure    for a month after `migrate`
    tarry:NAMESPACE:topics             set          topics that were added to                   a hint, outside the slot
    tarry:{NAMESPACE}:workers          hash         worker → since when, what it says of itself   live workers, a hint too
    tarry:{NAMESPACE}:heard            sorted set   worker → when it was last heard, server µs  for half a minute it lives
    tarry:NAMESPACE:tokens             hash         id → hash, scopes and limits of a token     for services, outside the slot

The braces are the hash tag: all keys of a topic live in one slot of a Cluster. Partition 3 of a topic has its keys under
``tarry:{NAMESPACE/TOPIC{3.K}:``, in a slot of their own; K is the first number that puts it into its part of all slots, so that
the partitions lie evenly over the masters. The topic's ``meta`` and ``jobs`` are then texts, how many there are and that they
spread so: ``8 spread``.
On a Cluster, a process that waits in more than 16 slots subscribes to a sharded channel in each further one, named like its
first ``wake``; nobody publishes there, its end tells that the slot has moved.

A queue that is shared with Java applications has Redisson's keys (tarry.verbs.redisson.names), and beside them ours:

    QUEUE                                  list         payloads that may be taken                    Redisson's
    redisson_delay_queue:{QUEUE}           list         packed elements in the order of offers        Redisson's
    redisson_delay_queue_timeout:{QUEUE}   sorted set   packed element → when it is due, server ms    Redisson's
    tarry:{QUEUE}:poison                   hash         what could not be used → when and why         ours
    tarry:{QUEUE}:movers                   sorted set   mover → when it promised to look              ours
    tarry:{QUEUE}:format                   string       format of its elements, how it is known       ours
    tarry:{QUEUE}:leaving                  sorted set   packed element → when it is due, server ms    ours
    tarry:{QUEUE}:departed                 string       the last departure of `leaving`, for a month  ours

A lock that is shared with Java applications has Redisson's keys too:

    LOCK                                   hash         holder → how many times he holds it           Redisson's
    redisson_lock_token:{LOCK}             string       the last fencing token                        Redisson's

A guarded queue, in a layout of its own or in that of article 002:

    tarry:{NAMESPACE/QUEUE}:items          sorted set   mark + payload → when it is due, server µs
    tarry:{NAMESPACE/QUEUE}:fence          string       the highest fencing token that was presented
    tarry:{NAMESPACE/QUEUE}:polled         hash         who polled → his last batch, for a lost answer   a minute
    d_q_p:QUEUE                            sorted set   JSON text → when it is due, server ms         the article's
    tarry:{d_q_p:QUEUE}:fence              string       the same as above, and so is :polled

A map cache that is shared with Java applications, likewise:

    MAP                                        hash         key → idle time + value                            Redisson's
    redisson__timeout__set:{MAP}               sorted set   key → when its time to live ends, server ms        Redisson's
    redisson__idle__set:{MAP}                  sorted set   key → when its idle time ends, server ms           Redisson's
    redisson__map_cache__last_access__set:{MAP}   sorted set   key → last access, ms, or number of accesses    Redisson's
    {MAP}:redisson_options                     hash         max-size, mode, has-listeners                      Redisson's
    redisson__execute_task_once_latch:{MAP}    string       somebody evicts by Redisson's rule                 Redisson's
    redisson__map__lease:{MAP}:KEY             string       who loads the key, with an expiry                  Redisson's
    tarry:{MAP}:evictors                       sorted set   evictor → when it promised to look                 ours
    tarry:{MAP}:answer:NONCE                   string       what a call answered, for 30 s, should it come again   ours

Told on its channel ``tarry:{MAP}:hints``, to whoever keeps the map or waits for a load: ``due`` and a moment in ms, ``key`` and
a key. Redisson's four channels of events are named in tarry.verbs.redisson.names.

A QUEUE, LOCK or MAP that has a brace in its name stands there without braces around it, as Redisson has it.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from tarry.values import names

SLOTS = 16384
NEIGHBOURING_SLOTS = 64
"""One of so many slots is good enough, and soon found."""
TOPIC_PARTS = ("due", "reserved", "dead", "jobs", "runs", "meta", "watch", "wake", "relay")
DEPARTING_PARTS = (*TOPIC_PARTS, "leaving")
FINISHING_PARTS = (*TOPIC_PARTS, "stale")
DELETING_PARTS = (*DEPARTING_PARTS, "stale")
ARRIVING_PARTS = (*DEPARTING_PARTS, "arrived")
SCHEDULE_PARTS = (*TOPIC_PARTS, "schedules", "plans", "declared")
MOVING_PARTS = (*SCHEDULE_PARTS, "moving", "moved")

WORKER_PARTS = ("workers", "heard")

QUEUE_PARTS = ("ready", "order", "timeouts", "channel", "poison", "movers", "format")

LOCK_PARTS = ("lock", "token", "channel")

GUARDED_PARTS = ("items", "fence", "polled", "channel")

MAP_PARTS = (
    "entries", "timeouts", "idles", "accesses", "options", "created", "updated", "removed", "expired", "evictors", "hints",
)  # fmt: skip


class TopicKeys(NamedTuple):
    """The keys of one topic, in the order in which every topic script names them."""

    due: bytes
    reserved: bytes
    dead: bytes
    jobs: bytes
    runs: bytes
    meta: bytes
    watch: bytes
    wake: bytes
    relay: bytes


class WorkerKeys(NamedTuple):
    """The keys of a namespace's live workers, in the order in which their scripts name them."""

    workers: bytes
    heard: bytes


class QueueKeys(NamedTuple):
    """The keys of one shared queue, in the order in which every script of it names them; the channel among them."""

    ready: bytes
    order: bytes
    timeouts: bytes
    channel: bytes
    poison: bytes
    movers: bytes
    format: bytes


class LockKeys(NamedTuple):
    """The keys of one lock, and its channel."""

    lock: bytes
    token: bytes
    channel: bytes


class GuardedKeys(NamedTuple):
    """The keys of one guarded queue, and its channel."""

    items: bytes
    fence: bytes
    polled: bytes
    channel: bytes


class MapKeys(NamedTuple):
    """The keys of one map cache, in the order in which every script of it names them; its channels among them."""

    entries: bytes
    timeouts: bytes
    idles: bytes
    accesses: bytes
    options: bytes
    created: bytes
    updated: bytes
    removed: bytes
    expired: bytes
    evictors: bytes
    hints: bytes


def topic_keys(namespace: str, topic: str) -> TopicKeys:
    """The keys of a topic."""
    return _tagged(_stem(namespace, topic))


def partition_keys(namespace: str, topic: str, partition: int, total: int) -> TopicKeys:
    """The keys of a partition, counted from 0, among so many: a slot as far from the next as they are all from each other.

    Names that differ by a digit only would fall upon few of a Cluster's masters: its hash is linear. Topics that were made
    before this have such names; for them ``among`` is 0.
    """
    stem = _stem(namespace, topic)
    if not total:
        return _tagged(b"%s{%d" % (stem, partition))
    start, near = _slot_of(stem) + partition * SLOTS // total, max(SLOTS // (4 * total), NEIGHBOURING_SLOTS)
    tags = (b"%s{%d.%d" % (stem, partition, k) for k in count())
    return _tagged(next(tag for tag in tags if (_slot_of(tag) - start) % SLOTS < near))


def partition_of(tag: bytes) -> tuple[bytes, int]:
    """What stands in the braces of a topic's key behind the namespace: the topic, and the partition or -1."""
    topic, _, number = tag.partition(b"{")
    return topic, int(number.partition(b".")[0] or -1)


def _slot_of(tag: bytes) -> int:
    """The slot of a Cluster that keys with this hash tag lie in."""
    return crc_hqx(tag, 0) % SLOTS


def _stem(namespace: str, topic: str) -> bytes:
    return names.check_namespace(namespace) + b"/" + names.check_name(topic, "topic")


def _tagged(tag: bytes) -> TopicKeys:
    return TopicKeys(*[b"tarry:{" + tag + b"}:" + part.encode() for part in TOPIC_PARTS])


def schedule_keys(keys: TopicKeys) -> tuple[bytes, ...]:
    """A topic's keys and those of its schedules, as SCHEDULE_PARTS names them."""
    stem = keys.due.removesuffix(b"due")
    return (*keys, stem + b"schedules", stem + b"plans", stem + b"declared")


def moving_keys(keys: TopicKeys) -> tuple[bytes, ...]:
    """A topic's keys, those of its schedules, and of those that move, as MOVING_PARTS names them."""
    stem = keys.due.removesuffix(b"due")
    return (*schedule_keys(keys), moving_key(keys), stem + b"moved")


def moving_key(keys: TopicKeys) -> bytes:
    """Where schedules are that leave the topic for another one."""
    return keys.due.removesuffix(b"due") + b"moving"


def departing_key(keys: TopicKeys) -> bytes:
    """Where jobs are that leave the topic for another one."""
    return keys.due.removesuffix(b"due") + b"leaving"


@lru_cache(4096)
def with_departing(keys: TopicKeys) -> tuple[bytes, ...]:
    """A topic's keys, and where its jobs are that leave, as DEPARTING_PARTS names them."""
    return (*keys, departing_key(keys))


@lru_cache(4096)
def finishing_keys(keys: TopicKeys) -> tuple[bytes, ...]:
    """A topic's keys, and what is known of receipts that came too late, as FINISHING_PARTS names them."""
    return (*keys, keys.due.removesuffix(b"due") + b"stale")


@lru_cache(4096)
def deleting_keys(keys: TopicKeys) -> tuple[bytes, ...]:
    """The same, and where its jobs are that leave, as DELETING_PARTS names them."""
    return (*with_departing(keys), keys.due.removesuffix(b"due") + b"stale")


@lru_cache(4096)
def with_arriving(keys: TopicKeys) -> tuple[bytes, ...]:
    """The same, and what is known of jobs that came from other topics, as ARRIVING_PARTS names them."""
    return (*with_departing(keys), keys.due.removesuffix(b"due") + b"arrived")


def topics_key(namespace: str) -> bytes:
    return b"tarry:" + names.check_namespace(namespace) + b":topics"


def worker_keys(namespace: str) -> WorkerKeys:
    tag = b"tarry:{" + names.check_namespace(namespace) + b"}:"
    return WorkerKeys(*[tag + part.encode() for part in WORKER_PARTS])


def tokens_key(namespace: str) -> bytes:
    return b"tarry:" + names.check_namespace(namespace) + b":tokens"


def queue_keys(ready: str, order: str, timeouts: str, channel: str, tagged_name: str) -> QueueKeys:
    """Redisson's names, and ours; ``tagged`` is ``tarry:`` and the queue's name, tagged as Redisson tags it."""
    ours = [f"{tagged_name}:{part}" for part in ("poison", "movers", "format")]
    return QueueKeys(*[name.encode() for name in (ready, order, timeouts, channel, *ours)])


def leaving_key(keys: QueueKeys) -> bytes:
    """Where elements are that leave the queue for somewhere else."""
    return keys.movers.removesuffix(b"movers") + b"leaving"


def departed_key(keys: QueueKeys) -> bytes:
    """Which departure they belong to, or the last one did."""
    return keys.movers.removesuffix(b"movers") + b"departed"


def lock_keys(lock: str, token: str, channel: str) -> LockKeys:
    """Redisson's names."""
    return LockKeys(lock.encode(), token.encode(), channel.encode())


def holders_channel(keys: LockKeys) -> bytes:
    """Nothing is said there. A holder that listens for the word that his lock is free listens here too, so that he is not
    counted among those who wait for it."""
    return keys.channel + b":holder"


def guarded_keys(namespace: str, queue: str) -> GuardedKeys:
    tag = b"tarry:{" + names.check_namespace(namespace) + b"/" + names.check_name(queue, "queue") + b"}:"
    return GuardedKeys(*[tag + part.encode() for part in ("items", "fence", "polled", "pushed")])


ARTICLE_PREFIX = "d_q_p:"
"""The prefix of article 002's queues."""


def article_keys(items: str, tagged_name: str) -> GuardedKeys:
    """The article's name, and ours; ``tagged`` is ``tarry:`` and that name, tagged as Redisson tags it."""
    return GuardedKeys(
        *[name.encode() for name in (items, f"{tagged_name}:fence", f"{tagged_name}:polled", f"{tagged_name}:pushed")]
    )


def map_keys(redisson_names: Sequence[str], tagged_name: str) -> MapKeys:
    """Redisson's names, in the order of the parts, and ours; ``tagged`` as above."""
    return MapKeys(*[name.encode() for name in (*redisson_names, f"{tagged_name}:evictors", f"{tagged_name}:hints")])


def answer_key(keys: MapKeys, nonce: bytes) -> bytes:
    """Where what a call answered is kept for a while."""
    return keys.hints.removesuffix(b"hints") + b"answer:" + nonce
