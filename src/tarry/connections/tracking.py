"""A lookout: one connection to a node, on which any number of waiters hear of their tokens. What is said and heard on it.

    a wish  ──▶  LLEN token            0: from now on the server tells when the list changes (CLIENT TRACKING)
                 invalidate token  ◀── it has changed
            ──▶  LLEN token            0: somebody else was quicker, or it was removed; it is heard again
                                       1: LPOP token: the wish is granted, or that changes too, and is told

The server tells of a list once, then each LLEN makes it tell again. Whatever it tells too often (a list that was removed,
a full table, a flush) costs a look. It does not tell when a slot leaves for another node while its lists are empty: so on a
Cluster the lookout subscribes to one sharded channel in each slot, to which nobody ever publishes, and which the server
takes away together with the slot. Where that may not be, and against everything else, all lists are looked at every ten
seconds; a node that does not answer then is gone (docs/decisions/0022-hearing-beyond-sixteen.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from redis.crc import key_slot

from tarry.connections.faults import ConnectionLost, Fault, ServerRefused, WrongNode

RECHECK_S = 10.0
LINGER_S = 1.0
"""How long a lookout that nobody needs keeps its connection."""
Args = tuple[bytes, ...]

_TRACK, _LENGTH, _CLAIM, _SUBSCRIBE, _UNSUBSCRIBE = b"CLIENT", b"LLEN", b"LPOP", b"SSUBSCRIBE", b"SUNSUBSCRIBE"


class TokenWait:
    """A token of one of some keys, all in one slot, for one waiter. ``ring`` is called when it is over."""

    __slots__ = ("claiming", "ended", "fault", "keys", "next_keys", "on_end", "token", "wanted")

    def __init__(self, keys: tuple[bytes, ...], on_end: Callable[[], None]) -> None:
        self.keys = keys
        self.on_end = on_end
        self.wanted = True
        self.ended = False
        self.token: bytes | None = None
        self.fault: Fault | None = None
        #: a claim is on its way; never two, or one hand would hold two tokens
        self.claiming = False
        self.next_keys: list[bytes] = []


class TrackingState:
    """Everything that one lookout looks after, and what it has asked. Not thread-safe: one thread, or one loop, has it."""

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster
        self._waits: dict[bytes, TokenWait] = {}
        self._tracked: set[bytes] = set()
        self._slot_subscriptions: dict[int, bytes] = {}
        self._awaited_replies: deque[tuple[bytes, bytes, TokenWait | None]] = deque()

    @property
    def awaits_reply(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._awaited_replies)

    @property
    def idle(self) -> bool:
        return not self._waits and not self._awaited_replies

    # ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> list[Args]:
        """On a new connection."""
        self._awaited_replies.append((_TRACK, b"", None))
        return [(_TRACK, b"TRACKING", b"ON", b"NOLOOP")]  # its own claims it knows

    def add(self, token_wait: TokenWait) -> list[Args]:
        """Somebody waits."""
        commands: list[Args] = []
        for key in token_wait.keys:
            self._waits[key] = token_wait
        slot = key_slot(token_wait.keys[0])
        if self._cluster and slot not in self._slot_subscriptions:
            self._slot_subscriptions[slot] = token_wait.keys[0]
            commands.append(self._command(_SUBSCRIBE, token_wait.keys[0]))
        return commands + [self._command(_LENGTH, key) for key in token_wait.keys if key not in self._tracked]

    def remove(self, token_wait: TokenWait) -> None:
        """Somebody waits no more. A claim that is on its way is awaited: its token is his to answer."""
        token_wait.wanted = False
        if not token_wait.ended and not token_wait.claiming:
            self._end(token_wait)

    def recheck(self) -> list[Args]:
        """From time to time."""
        self._tracked &= self._waits.keys()
        slots = {key_slot(key) for key in self._waits}
        gone = [slot for slot in self._slot_subscriptions if slot not in slots]
        return [
            *[self._command(_UNSUBSCRIBE, self._slot_subscriptions.pop(slot)) for slot in gone],
            *[self._command(_LENGTH, key) for key in self._waits],
        ]

    # ── what is heard ────────────────────────────────────────────────────────────────────────────────────────────────

    def on_message(self, reply: Any) -> list[Args]:
        """Takes what came: a message, which is a list, or the next answer. What is to be said now; raises a ``Fault`` that
        concerns everybody."""
        if isinstance(reply, list):
            return self._on_push(reply[0], reply[1])
        if not self._awaited_replies:
            raise ConnectionLost("an answer came that nobody asked for")
        verb, key, token_wait = self._awaited_replies.popleft()
        if isinstance(reply, Fault):
            return self._refused(verb, key, token_wait, reply)
        if verb == _CLAIM and token_wait is not None:
            return self._claimed(token_wait, key, came=reply is not None)
        if verb == _LENGTH:
            if reply:
                return self._claim(key)
            self._tracked.add(key)
        return []

    def connection_lost(self, fault: Fault) -> None:
        """The connection is gone, and all that was asked on it."""
        token_waits = [
            *self._waits.values(),
            *[token_wait for _, _, token_wait in self._awaited_replies if token_wait is not None],
        ]
        self._tracked.clear()
        self._slot_subscriptions.clear()
        self._awaited_replies.clear()
        for token_wait in token_waits:
            self._fail(token_wait, fault)

    def _on_push(self, kind: bytes, what: Any) -> list[Args]:
        if kind == b"invalidate":
            said: list[Args] = []
            for key in list(self._tracked | self._waits.keys()) if what is None else what:
                self._tracked.discard(key)
                if key in self._waits:
                    said.append(self._command(_LENGTH, key))
            return said
        if kind in (b"ssubscribe", b"sunsubscribe"):
            verb, channel, _ = self._awaited_replies[0] if self._awaited_replies else (b"", b"", None)
            if verb in (_SUBSCRIBE, _UNSUBSCRIBE) and channel == what:
                self._awaited_replies.popleft()
            elif kind == b"sunsubscribe":
                self._slot_moved(key_slot(what), WrongNode("the slot has moved"))
        return []

    def _claim(self, key: bytes) -> list[Args]:
        token_wait = self._waits.get(key)
        if token_wait is None:
            return []
        if token_wait.claiming:
            token_wait.next_keys.append(key)
            return []
        token_wait.claiming = True
        return [self._command(_CLAIM, key, token_wait)]

    def _claimed(self, token_wait: TokenWait, key: bytes, *, came: bool) -> list[Args]:
        token_wait.claiming = False
        if came:
            self._tracked.discard(key)  # NOLOOP: its own change is not told, and forgotten
            token_wait.token = key
        if came or not token_wait.wanted:
            self._end(token_wait)
        elif token_wait.next_keys:
            return self._claim(token_wait.next_keys.pop())
        return []

    def _refused(self, verb: bytes, key: bytes, token_wait: TokenWait | None, fault: Fault) -> list[Args]:
        if verb == _TRACK:
            raise fault
        if verb == _SUBSCRIBE:
            self._slot_subscriptions.pop(key_slot(key), None)
            if isinstance(fault, ServerRefused):  # an old server, or an ACL: the look-around does without
                self._cluster = False
                return []
        token_wait = token_wait or self._waits.get(key)
        if token_wait is not None:
            token_wait.claiming = False
            self._fail(token_wait, fault)
        return []

    def _slot_moved(self, slot: int, fault: Fault) -> None:
        if self._slot_subscriptions.pop(slot, None) is not None:
            for token_wait in self._waits_in_slot(slot):
                self._fail(token_wait, fault)

    def _waits_in_slot(self, slot: int) -> Iterator[TokenWait]:
        return iter([token_wait for key, token_wait in self._waits.items() if key_slot(key) == slot])

    def _fail(self, token_wait: TokenWait, fault: Fault) -> None:
        if not token_wait.ended:
            token_wait.fault = fault
            self._end(token_wait)

    def _end(self, token_wait: TokenWait) -> None:
        for key in token_wait.keys:
            if self._waits.get(key) is token_wait:
                del self._waits[key]
        if not token_wait.ended:
            token_wait.ended = True
            token_wait.on_end()

    def _command(self, verb: bytes, key: bytes, token_wait: TokenWait | None = None) -> Args:
        self._awaited_replies.append((verb, key, token_wait))
        return verb, key
