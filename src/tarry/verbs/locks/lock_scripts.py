"""The requests for a lock in Redis, each one script.

    lock      uuid:1 → 2          the holder, and how many times it holds the lock
              ── PEXPIRE ──▶      the lease; when it ends the lock is free

Every script is safe to repeat: the number of holds is set, not incremented.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND, as_timedelta
from tarry.values.keys import LOCK_PARTS, LockKeys, holders_channel, lock_keys, shared_lock_keys
from tarry.verbs.locks.lock_values import LockId, LockState
from tarry.verbs.redisson import names

ACQUIRE = Script("locks/acquire", args=("holder", "depth", "lease", "is_replay"), keys=LOCK_PARTS)
RELEASE = Script("locks/release", args=("holder", "depth", "sharded", "is_replay"), keys=LOCK_PARTS)
RENEW = Script("locks/renew", args=("holder", "lease"), keys=LOCK_PARTS)
READ = Script("locks/read", keys=LOCK_PARTS)
FORCE_RELEASE = Script("locks/force_release", args=("sharded",), keys=LOCK_PARTS)
NOT_HELD, BUSY = -1, 0
UNKNOWN_MS = -1
SCAN_COUNT = b"1000"


@dataclass(frozen=True, slots=True)
class AcquireReply:
    """The answer of an attempt to acquire: a token, or how long until the lock is free at the latest."""

    token: int
    wait_ms: int = UNKNOWN_MS


def keys_of(lock: LockId, namespace: str, mapped: Callable[[str], str] = str, *, cluster: bool = False) -> LockKeys:
    """The keys of a lock: of the namespace, or Redisson's. Raises ``BadInput`` for a name that is not allowed, or not on a Cluster."""
    name = lock.name
    if not lock.shared:
        return lock_keys(namespace, name)
    if not isinstance(name, str) or not name:
        raise BadInput(f"lock: {name!r}; its name is a text that is not empty.")
    name = mapped(name)
    if cluster and not names.fits_cluster(name):
        raise BadInput(f"lock: the keys of {name!r} are in several slots of the Cluster, for Redisson too; rename it.")
    theirs = names.lock(name)
    try:
        return shared_lock_keys(theirs.lock, theirs.token, theirs.channel)
    except UnicodeEncodeError:
        raise BadInput(f"lock: {name!r} is not valid Unicode (a lone surrogate).") from None


def acquire_lock(
    keys: LockKeys, holder: bytes, depth: int, lease_ms: int, *, sharded: bool
) -> ScriptCall[AcquireReply]:
    def undo(answer: AcquireReply) -> ScriptCall[bool] | None:
        return release_lock(keys, holder, depth - 1, sharded=sharded) if answer.token > 0 else None

    args = (holder, b"%d" % depth, b"%d" % lease_ms, FIRST_TIME)
    return ScriptCall(ACQUIRE, keys, args, lambda reply: AcquireReply(*reply), undo=undo)


def release_lock(keys: LockKeys, holder: bytes, depth_left: int, *, sharded: bool) -> ScriptCall[bool]:
    args = (holder, b"%d" % depth_left, _flag(sharded), FIRST_TIME)
    return ScriptCall(RELEASE, keys, args, bool)


def renew_lease(keys: LockKeys, holder: bytes, lease_ms: int) -> ScriptCall[bool]:
    return ScriptCall(RENEW, keys, (holder, b"%d" % lease_ms), bool)


def force_release(name: str, keys: LockKeys, *, sharded: bool) -> ScriptCall[bool]:
    """Releases a lock by force, for any holder. Raises ``BadInput`` if the key is not a lock, which would be deleted."""

    def decode(reply: Reply) -> bool:
        if reply < 0:
            raise _not_a_lock(name)
        return bool(reply)

    return ScriptCall(FORCE_RELEASE, keys, (_flag(sharded),), decode)


def read_lock(name: str, keys: LockKeys) -> ScriptCall[LockState]:
    return ScriptCall(READ, keys, (), lambda reply: _state(name, reply))


def is_holder(keys: LockKeys, holder: bytes) -> ScriptCall[bool]:
    """Whether the holder still holds the lock."""
    return ScriptCall(READ, keys, (), lambda reply: reply != 0 and holder in reply[0])


def count_waiting(keys: LockKeys) -> Command[int]:
    """The number of clients that are subscribed to its release and do not hold it, Java's included; on a Cluster those of one
    node."""
    args = (b"PUBSUB", b"NUMSUB", keys.channel, holders_channel(keys))
    return Command(args, lambda reply: max(int(reply[1]) - int(reply[3]), 0), key_index=2)


def lock_state(name: str, keys: LockKeys) -> Flow[LockState]:
    seen = yield from ask(read_lock(name, keys))
    count = yield from ask(count_waiting(keys))
    return LockState(
        name=seen.name,
        held=seen.held,
        holder=seen.holder,
        depth=seen.depth,
        token=seen.token,
        remaining=seen.remaining,
        waiting=count,
    )


def scan_locks(cursor: bytes, namespace: str, *, shared: bool) -> tuple[bytes, ...]:
    """A SCAN step over the keys that locks of the last week have left: those of the namespace, or those shared with Java."""
    return (b"SCAN", cursor, b"MATCH", token_pattern(namespace, shared=shared), b"COUNT", SCAN_COUNT)


def token_pattern(namespace: str, *, shared: bool = False) -> bytes:
    """The pattern of the tokens' keys of a namespace's locks, or of those shared with Java."""
    if shared:
        return b"redisson_lock_token:*"
    before, after = _around_name(namespace)
    return re.sub(rb"([\\*?\[\]])", rb"\\\1", before) + b"*" + after


def lock_of(token: bytes, namespace: str) -> LockId:
    """The lock that a token's key belongs to."""
    before, after = _around_name(namespace)
    if token.startswith(before):
        return LockId(token.removeprefix(before).removesuffix(after).decode("utf-8", "replace"))
    name = token.decode("utf-8", "replace").partition(":")[2]
    return LockId(name[1:-1] if name.startswith("{") and name.endswith("}") else name, shared=True)


def _around_name(namespace: str) -> tuple[bytes, bytes]:
    """The parts of the key of a lock's token before and behind the lock's name."""
    before, _, after = lock_keys(namespace, "_").token.rpartition(b"_")
    return before, after


def _not_a_lock(name: str) -> BadInput:
    return BadInput(f"lock: {name!r} is no lock; something else has this name.")


def _state(name: str, reply: Reply) -> LockState:
    if reply == 0:
        raise _not_a_lock(name)
    fields, pttl, token = reply
    flat = [arg for pair in fields.items() for arg in pair] if isinstance(fields, dict) else fields
    counts = {field.decode("utf-8", "replace"): count for field, count in zip(flat[::2], flat[1::2], strict=True)}
    counts.pop("mode", None)  # of Java's read-write lock
    holder = next(iter(counts), None)
    return LockState(
        name=name,
        held=bool(flat),
        holder=holder,
        depth=int(counts[holder]) if holder is not None else 0,
        token=int(token) if token else None,
        remaining=as_timedelta(pttl * MILLISECOND) if pttl >= 0 else None,
        waiting=None,
    )


def _flag(value: bool) -> bytes:
    return b"1" if value else b"0"
