"""Every key that tarry writes, in one table. Nothing else in the project spells a key.

    tarry:{NAMESPACE/TOPIC}:due        sorted set   id → when it is due, server µs          delayed and ready jobs
    tarry:{NAMESPACE/TOPIC}:reserved   sorted set   id → end of its time to run, server µs  jobs that were handed out
    tarry:{NAMESPACE/TOPIC}:dead       sorted set   id → when it died, server µs            jobs set aside
    tarry:{NAMESPACE/TOPIC}:jobs       hash         id → head + body                        written once
    tarry:{NAMESPACE/TOPIC}:runs       hash         id → attempt, receipt, holder, error    from the first attempt on
    tarry:{NAMESPACE/TOPIC}:meta       hash         last receipt, pause, settings, counters, lateness, missed holders
    tarry:{NAMESPACE/TOPIC}:retrying   sorted set   id → when it is due, as in `due`        delayed jobs that have failed before
    tarry:{NAMESPACE/TOPIC}:attempts   hash         id → its last failed attempts           from the first failure on
    tarry:{NAMESPACE/TOPIC}:priority1  sorted set   id → when it is due, as in `due`        waiting jobs of this priority; so are `priority2`, `priority3`
    tarry:{NAMESPACE/TOPIC}:keyed      sorted set   id → when it is due, server µs          waiting jobs with a key, which are not in `due`
    tarry:{NAMESPACE/TOPIC}:by_key     sorted set   key and due or `!`, id                  waiting and reserved jobs with a key, by it
    tarry:{NAMESPACE/TOPIC}:turns      sorted set   key → when it may run, server µs        keys with a job that may run, now or later
    tarry:{NAMESPACE/TOPIC}:paces      sorted set   `r` or `p`, key → until when it waits   keys whose rate is spent, or that are paused
    tarry:{NAMESPACE/TOPIC}:minutes    list         the totals at the first pop of each minute, for a day, and of each hour, for a week
    tarry:{NAMESPACE/TOPIC}:stale      hash         id → created, the highest stale receipt seen   a minute, of a few jobs that are gone
    tarry:{NAMESPACE/TOPIC}:finished   sorted set   id → when its keep ends, server µs      finished jobs that are kept
    tarry:{NAMESPACE/TOPIC}:results    hash         id → result, run, head + body           of the same jobs
    tarry:{NAMESPACE/TOPIC}:cancelled  sorted set   id and receipt of a cancelled run → when it is forgotten   until a minute after its reservation
    tarry:{NAMESPACE/TOPIC}:watch      sorted set   consumer → by when it will look         the seats of the watch
    tarry:{NAMESPACE/TOPIC}:wake       list         at most one token: no consumer will look in time
    tarry:{NAMESPACE/TOPIC}:relay      list         at most one token: fewer than two consumers will look in time
    tarry:{NAMESPACE/TOPIC}:schedules  sorted set   schedule → its next occurrence, server µs   without paused ones; a second later while a consumer adds its job
    tarry:{NAMESPACE/TOPIC}:plans      hash         schedule → recurrence, job, counts
    tarry:{NAMESPACE/TOPIC}:declared   hash         schedule → when code declared it, and in which version
    tarry:{NAMESPACE/TOPIC}:leaving    hash         id → its state before; '' → departure   only while `migrate` runs
    tarry:{NAMESPACE/TOPIC}:arrived    hash         source → its last departure, the answers   for a month after `migrate`
    tarry:{NAMESPACE/TOPIC}:moving     hash         schedule → departure, next, plan        only while `migrate` runs
    tarry:{NAMESPACE/TOPIC}:moved      hash         schedule, source → its last departure   for a month after `migrate`
    tarry:NAMESPACE:topics             set          topics that were added to                   for lists and patterns, outside the slot
    tarry:{NAMESPACE}:workers          hash         worker → when it started, its report        live workers, a hint too
    tarry:{NAMESPACE}:heard            sorted set   worker → its last report, server µs         it lives for half a minute after
    tarry:{NAMESPACE}:asked            hash         worker → the mode that it is asked to take  while it lives, if it was asked
    tarry:{NAMESPACE}:holders          hash         worker → which server has seen it subscribed, its topics   for a day
    tarry:{NAMESPACE}:busy             sorted set   worker → when it last said that it holds jobs   while it does
    tarry:{NAMESPACE}:holder:WORKER    list         a question to a worker that is missed: does it live?   for a second; also its channel
    tarry:{NAMESPACE}:observers        sorted set   worker → by when it will look for others that are dead
    tarry:NAMESPACE:numbers            string       the last number given to a job as its id    outside the slot
    tarry:NAMESPACE:tokens             hash         id → hash, scopes and limits of a token     for services, outside the slot

A topic of a part of tarry (``OwnTopic``) has a TOPIC that begins with a blank, as no name does. A shared QUEUE, LOCK or MAP never
begins with ``tarry:`` or ``redisson_``, also if its braces are left out. So a name that comes from outside reaches none of tarry's own keys.

The braces are the hash tag: all keys of a topic are in one slot of a Cluster. Partition 3 of a topic has its keys under
``tarry:{NAMESPACE/TOPIC{3.K}:``, in a slot of their own. K is the first number that puts this slot into the partition's share of all
slots, so that the masters get equal numbers of partitions. The topic's ``meta`` and ``jobs`` are then strings: the number of
partitions.
On a Cluster, a process that waits in more than 16 slots subscribes to a sharded channel in each further one, named like its
first ``wake``. Nobody publishes there: the server ends the subscription when the slot moves. The channel with the name of ``finished``
carries the ids of finished jobs that are kept, that with the name of ``topics`` the names of new topics.

A queue that is shared with Java applications has Redisson's keys (tarry.verbs.redisson.names), and some of tarry's:

    QUEUE                                  list         payloads that may be taken                    Redisson's
    redisson_delay_queue:{QUEUE}           list         packed elements in the order of offers        Redisson's
    redisson_delay_queue_timeout:{QUEUE}   sorted set   packed element → when it is due, server ms    Redisson's
    tarry:shared:{QUEUE}:poison            hash         unreadable element → when and why             ours
    tarry:shared:{QUEUE}:movers            sorted set   mover → by when it will look                  ours
    tarry:shared:{QUEUE}:format            string       format of its elements, how it is known       ours
    tarry:shared:{QUEUE}:leaving           sorted set   packed element → when it is due, server ms    ours
    tarry:shared:{QUEUE}:departed          string       the last departure of `leaving`, for a month  ours

A lock; one that is shared with Java applications (``shared=True``) has Redisson's keys:

    tarry:{NAMESPACE/LOCK}:lock            hash         holder → how many times it holds the lock     while it is held
    tarry:{NAMESPACE/LOCK}:token           string       the last fencing token                        for a week
    LOCK                                   hash         as :lock                                      Redisson's
    redisson_lock_token:{LOCK}             string       as :token                                     Redisson's

A guarded queue, in a layout of its own, or in that of the Java design that it comes from:

    tarry:{NAMESPACE/QUEUE}:items          sorted set   mark + payload → when it is due, server µs
    tarry:{NAMESPACE/QUEUE}:fence          string       the highest fencing token seen
    tarry:{NAMESPACE/QUEUE}:polled         hash         consumer → its last batch, for a lost answer   a minute
    d_q_p:QUEUE                            sorted set   JSON text → when it is due, server ms         layout "java"
    tarry:shared:{d_q_p:QUEUE}:fence       string       as above; so is :polled

A map cache that is shared with Java applications, likewise:

    MAP                                        hash         key → idle time + value                            Redisson's
    redisson__timeout__set:{MAP}               sorted set   key → when its time to live ends, server ms        Redisson's
    redisson__idle__set:{MAP}                  sorted set   key → when its idle time ends, server ms           Redisson's
    redisson__map_cache__last_access__set:{MAP}   sorted set   key → last access, ms, or number of accesses    Redisson's
    {MAP}:redisson_options                     hash         max-size, mode, has-listeners                      Redisson's
    redisson__execute_task_once_latch:{MAP}    string       a process is evicting by Redisson's rule           Redisson's
    redisson__map__lease:{MAP}:KEY             string       who loads the key, with an expiry                  Redisson's
    tarry:shared:{MAP}:evictors                sorted set   evictor → by when it will look                     ours
    tarry:shared:{MAP}:answer:NONCE            string       a call's answer, for 30 s, in case it is repeated  ours

A map with ``backend="native"``, which is the namespace's:

    tarry:{NAMESPACE/MAP}:entries       hash         key → value, with an expiry
    tarry:{NAMESPACE/MAP}:lease:KEY     string       who loads the key, with an expiry
    tarry:{NAMESPACE/MAP}:answer:NONCE  string       as above

The channel ``tarry:shared:{MAP}:hints``, or ``tarry:{NAMESPACE/MAP}:hints``, carries messages for evictors and for callers that wait for a load: ``due`` and a moment
in ms, ``key`` and a key. Redisson's four channels of events are named in tarry.verbs.redisson.names.

If a QUEUE, LOCK or MAP has a brace in its name, no braces are put around it; Redisson does the same.

A shared name may be any text, such as that of a topic with its namespace. So tarry's keys of shared objects begin with ``tarry:shared:`` and have a brace:
those of topics, locks and maps of a namespace begin with ``tarry:{``, and those of a namespace outside the slot have no brace.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import NamedTuple
from zlib import crc32

from tarry.values import names

SLOTS = 16384
NEIGHBOURING_SLOTS = 64
"""A partition may be as many slots away from its ideal slot: close enough, and K is found soon."""
TOPIC_PARTS = ("due", "reserved", "dead", "jobs", "runs", "meta", "watch", "wake", "relay")
RETRYING_PARTS = (*TOPIC_PARTS, "retrying", "attempts")
PRIORITY_PARTS = ("priority1", "priority2", "priority3")
WAITING_PARTS = (*RETRYING_PARTS, *PRIORITY_PARTS)
POPPING_PARTS = (*TOPIC_PARTS, "attempts", *PRIORITY_PARTS, "minutes")
DEPARTING_PARTS = (*WAITING_PARTS, "leaving")
KEY_PARTS = ("keyed", "by_key", "turns", "paces")
"""Of jobs with a key. Scripts that most calls need get them only for a topic that has such jobs."""
LATER_PARTS = ("due", "jobs")
SOON_PARTS = ("due", "reserved", "jobs", "meta", "watch", "wake", "relay")
WITH_KEY_PARTS = (*SOON_PARTS, *KEY_PARTS)
TOUCHING_PARTS = ("reserved", "dead", "jobs", "runs", "meta")
HISTORY_PARTS = ("finished", "results")
FINISHING_PARTS = (*RETRYING_PARTS, "stale", *HISTORY_PARTS)
GETTING_PARTS = (*RETRYING_PARTS, "leaving", *HISTORY_PARTS)
ONCE_PARTS = (*DEPARTING_PARTS, *HISTORY_PARTS)
LISTING_PARTS = (*RETRYING_PARTS, *HISTORY_PARTS)
COUNTING_PARTS = (*LISTING_PARTS, "leaving")
DELETING_PARTS = (*DEPARTING_PARTS, "stale")
PURGING_PARTS = (*DELETING_PARTS, *HISTORY_PARTS)
CANCELLING_PARTS = (*DELETING_PARTS, "cancelled")
ARRIVING_PARTS = (*DEPARTING_PARTS, "arrived")
SCHEDULE_PARTS = (*TOPIC_PARTS, "schedules", "plans", "declared")
FIRING_PARTS = (*SCHEDULE_PARTS, *PRIORITY_PARTS)
MOVING_PARTS = (*SCHEDULE_PARTS, "moving", "moved")
FURTHER_PARTS = (
    *WAITING_PARTS[len(TOPIC_PARTS) :], *KEY_PARTS, "minutes", *HISTORY_PARTS, "stale", "cancelled", "leaving", "arrived",
    *MOVING_PARTS[len(TOPIC_PARTS) :],
)  # fmt: skip

WORKER_PARTS = ("workers", "heard", "asked")
HOLDER_PARTS = ("holders", "busy", "observers")

SHARED = "tarry:shared"
"""The prefix of tarry's own keys of what is shared with Java, in the way of Redisson's prefixes."""

QUEUE_PARTS = ("ready", "order", "timeouts", "channel", "poison", "movers", "format")

LOCK_PARTS = ("lock", "token", "channel")

GUARDED_PARTS = ("items", "fence", "polled", "channel")

MAP_PARTS = (
    "entries", "timeouts", "idles", "accesses", "options", "created", "updated", "removed", "expired", "evictors", "hints",
)  # fmt: skip


class TopicKeys(NamedTuple):
    """The keys of one topic, in the order in which every script of topics declares them."""

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
    """The keys of a namespace's live workers, in the order in which their scripts declare them."""

    workers: bytes
    heard: bytes
    asked: bytes


class HolderKeys(NamedTuple):
    """The keys of a namespace's worker processes that hold jobs, in the order in which their scripts declare them."""

    holders: bytes
    busy: bytes
    observers: bytes


class QueueKeys(NamedTuple):
    """The keys and the channel of one shared queue, in the order in which every script of queues declares them."""

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
    """The keys and channels of one map cache, in the order in which every script of maps declares them."""

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
    """The keys of partition ``partition``, counted from 0, of ``total``. The partitions' slots are equally far from each other.

    Names that differ by a digit only would be on few of a Cluster's masters: its hash is linear.
    """
    stem = _stem(namespace, topic)
    start, near = _slot_of(stem) + partition * SLOTS // total, max(SLOTS // (4 * total), NEIGHBOURING_SLOTS)
    tags = (b"%s{%d.%d" % (stem, partition, k) for k in count())
    return _tagged(next(tag for tag in tags if (_slot_of(tag) - start) % SLOTS < near))


def partition_of_name(name: bytes, number: int) -> int:
    """The partition of a name, such as a schedule's, by their number."""
    return crc32(name) % number


def partition_of(tag: bytes) -> tuple[bytes, int]:
    """Splits a key's hash tag without its namespace into the topic and the partition; -1 if it has none."""
    topic, _, number = tag.partition(b"{")
    return topic, int(number.partition(b".")[0] or -1)


def _slot_of(tag: bytes) -> int:
    """The Cluster slot of the keys with this hash tag."""
    return crc_hqx(tag, 0) % SLOTS


def _stem(namespace: str, topic: str) -> bytes:
    own = isinstance(topic, names.OwnTopic)
    return names.check_namespace(namespace) + b"/" + (topic.encode() if own else names.check_name(topic, "topic"))


def _tagged(tag: bytes) -> TopicKeys:
    return TopicKeys(*[b"tarry:{" + tag + b"}:" + part.encode() for part in TOPIC_PARTS])


@lru_cache(4096)
def _all_keys(keys: TopicKeys) -> dict[str, bytes]:
    stem = keys.due.removesuffix(b"due")
    return {**keys._asdict(), **{part: stem + part.encode() for part in FURTHER_PARTS}}


def all_keys(keys: TopicKeys) -> tuple[bytes, ...]:
    """The keys of all parts of a topic."""
    return tuple(_all_keys(keys).values())


class KnownKeys(dict[TopicKeys, tuple[bytes, ...]]):
    """A topic's keys of some parts. ``learn`` adds those of jobs with a key, for a topic that has such jobs."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        self._short, self.long = keys_of_parts(parts), keys_of_parts((*parts, *KEY_PARTS))

    def __missing__(self, keys: TopicKeys) -> tuple[bytes, ...]:
        if len(self) >= MOST_KNOWN:
            self.clear()
        found = self[keys] = self._short(keys)
        return found

    def learn(self, keys: TopicKeys) -> None:
        self[keys] = self.long(keys)


MOST_KNOWN = 4096


@cache
def keys_of_parts(parts: tuple[str, ...]) -> Callable[[TopicKeys], tuple[bytes, ...]]:
    """What returns a topic's keys of these parts, in their order."""

    @lru_cache(MOST_KNOWN)
    def keys_of(keys: TopicKeys) -> tuple[bytes, ...]:
        known = _all_keys(keys)
        return tuple([known[part] for part in parts])

    return keys_of


def topic_keys_of(key: bytes) -> TopicKeys:
    """The keys of the topic that has this one."""
    return _tagged(key[len(b"tarry:{") : key.rindex(b"}:")])


def part_key(keys: TopicKeys, part: str) -> bytes:
    """A topic's key of one part."""
    return _all_keys(keys)[part]


def finished_channel(keys: TopicKeys) -> bytes:
    """The channel that carries the ids of finished jobs that are kept."""
    return part_key(keys, "finished")


def topics_key(namespace: str) -> bytes:
    return b"tarry:" + names.check_namespace(namespace) + b":topics"


def worker_keys(namespace: str) -> WorkerKeys:
    tag = b"tarry:{" + names.check_namespace(namespace) + b"}:"
    return WorkerKeys(*[tag + part.encode() for part in WORKER_PARTS])


def holder_keys(namespace: str) -> HolderKeys:
    tag = b"tarry:{" + names.check_namespace(namespace) + b"}:"
    return HolderKeys(*[tag + part.encode() for part in HOLDER_PARTS])


def holder_channel(namespace: str, holder: bytes) -> bytes:
    """The channel that a worker process is subscribed to as long as it lives. A message there calls it to look for others."""
    return b"tarry:{" + names.check_namespace(namespace) + b"}:holder:" + holder


def tokens_key(namespace: str) -> bytes:
    return b"tarry:" + names.check_namespace(namespace) + b":tokens"


def numbers_key(namespace: str) -> bytes:
    return b"tarry:" + names.check_namespace(namespace) + b":numbers"


def queue_keys(ready: str, order: str, timeouts: str, channel: str, tagged_name: str) -> QueueKeys:
    """Redisson's names, and ours; ``tagged_name`` is ``SHARED`` and the queue's name, with Redisson's hash tag. Raises ``BadInput``."""
    names.check_shared_name(ready, "queue")
    ours = [f"{tagged_name}:{part}" for part in ("poison", "movers", "format")]
    return QueueKeys(*[name.encode() for name in (ready, order, timeouts, channel, *ours)])


def leaving_key(keys: QueueKeys) -> bytes:
    """The sorted set of elements that are being moved out of the queue."""
    return keys.movers.removesuffix(b"movers") + b"leaving"


def departed_key(keys: QueueKeys) -> bytes:
    """The string with the departure that those elements belong to, or that the last ones did."""
    return keys.movers.removesuffix(b"movers") + b"departed"


def lock_keys(namespace: str, name: str) -> LockKeys:
    """The keys and the channel of a lock of tarry's own."""
    tag = b"tarry:{" + names.check_namespace(namespace) + b"/" + names.check_name(name, "lock") + b"}:"
    return LockKeys(tag + b"lock", tag + b"token", tag + b"released")


def shared_lock_keys(lock: str, token: str, channel: str) -> LockKeys:
    """The keys and the channel of a lock that is shared with Java; the names are Redisson's. Raises ``BadInput``."""
    names.check_shared_name(lock, "lock")
    return LockKeys(lock.encode(), token.encode(), channel.encode())


def holders_channel(keys: LockKeys) -> bytes:
    """A channel without messages. A holder that is subscribed to its lock's channel is subscribed here too, so that it is not
    counted among the waiters."""
    return keys.channel + b":holder"


def guarded_keys(namespace: str, queue: str) -> GuardedKeys:
    tag = b"tarry:{" + names.check_namespace(namespace) + b"/" + names.check_name(queue, "queue") + b"}:"
    return GuardedKeys(*[tag + part.encode() for part in ("items", "fence", "polled", "pushed")])


JAVA_PREFIX = "d_q_p:"
"""The prefix of a guarded queue with ``layout="java"``, as the Java design has it."""


def java_keys(items: str, tagged_name: str) -> GuardedKeys:
    """The keys of a guarded queue with ``layout="java"``; ``tagged_name`` is ``SHARED`` and that name, with Redisson's hash tag."""
    return GuardedKeys(
        *[name.encode() for name in (items, f"{tagged_name}:fence", f"{tagged_name}:polled", f"{tagged_name}:pushed")]
    )


def map_keys(redisson_names: Sequence[str], tagged_name: str) -> MapKeys:
    """Redisson's names, in the order of MAP_PARTS, and ours; ``tagged_name`` is ``SHARED`` and the map's name, with Redisson's hash tag.
    Raises ``BadInput``."""
    names.check_shared_name(redisson_names[0], "map")
    return MapKeys(*[name.encode() for name in (*redisson_names, f"{tagged_name}:evictors", f"{tagged_name}:hints")])


def own_map_keys(namespace: str, name: str) -> MapKeys:
    """The keys and the channel of a map of tarry's own, whose fields expire by themselves: only ``entries`` and ``hints`` are used."""
    tag = b"tarry:{" + names.check_namespace(namespace) + b"/" + names.check_name(name, "map") + b"}:"
    return MapKeys(*[tag + part.encode() for part in MAP_PARTS])


def lease_prefix(keys: MapKeys) -> bytes:
    """The beginning of the strings that say who loads a key of a map of tarry's own."""
    return keys.hints.removesuffix(b"hints") + b"lease:"


def answer_key(keys: MapKeys, nonce: bytes) -> bytes:
    """The string that keeps a call's answer for a while, in case the call is repeated."""
    return keys.hints.removesuffix(b"hints") + b"answer:" + nonce
