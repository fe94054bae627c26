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

from tarry.links.faults import Elsewhere, Fault, Lost, Refused

LOOK_AROUND_S = 10.0
LINGER_S = 1.0
"""How long a lookout that nobody needs keeps its connection."""
Words = tuple[bytes, ...]

_TRACK, _LOOK, _CLAIM, _TIE, _UNTIE = b"CLIENT", b"LLEN", b"LPOP", b"SSUBSCRIBE", b"SUNSUBSCRIBE"


class Wish:
    """A token of one of some keys, all in one slot, for one waiter. ``ring`` is called when it is over."""

    __slots__ = ("claiming", "fault", "keys", "later", "over", "ring", "token", "wanted")

    def __init__(self, keys: tuple[bytes, ...], ring: Callable[[], None]) -> None:
        self.keys = keys
        self.ring = ring
        self.wanted = True
        self.over = False
        self.token: bytes | None = None
        self.fault: Fault | None = None
        #: a claim is on its way; never two, or one hand would hold two tokens
        self.claiming = False
        self.later: list[bytes] = []


class Orders:
    """Everything that one lookout looks after, and what it has asked. Not thread-safe: one thread, or one loop, has it."""

    def __init__(self, *, tied: bool) -> None:
        self._tied = tied
        self._wishes: dict[bytes, Wish] = {}
        self._heard: set[bytes] = set()
        self._ties: dict[int, bytes] = {}
        self._asked: deque[tuple[bytes, bytes, Wish | None]] = deque()

    @property
    def awaiting(self) -> bool:
        """Whether an answer is to come."""
        return bool(self._asked)

    @property
    def idle(self) -> bool:
        return not self._wishes and not self._asked

    # ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> list[Words]:
        """On a new connection."""
        self._asked.append((_TRACK, b"", None))
        return [(_TRACK, b"TRACKING", b"ON", b"NOLOOP")]  # its own claims it knows

    def add(self, wish: Wish) -> list[Words]:
        """Somebody waits."""
        said: list[Words] = []
        for key in wish.keys:
            self._wishes[key] = wish
        slot = key_slot(wish.keys[0])
        if self._tied and slot not in self._ties:
            self._ties[slot] = wish.keys[0]
            said.append(self._ask(_TIE, wish.keys[0]))
        return said + [self._ask(_LOOK, key) for key in wish.keys if key not in self._heard]

    def remove(self, wish: Wish) -> None:
        """Somebody waits no more. A claim that is on its way is awaited: its token is his to answer."""
        wish.wanted = False
        if not wish.over and not wish.claiming:
            self._end(wish)

    def look_around(self) -> list[Words]:
        """From time to time."""
        self._heard &= self._wishes.keys()
        slots = {key_slot(key) for key in self._wishes}
        gone = [slot for slot in self._ties if slot not in slots]
        return [
            *[self._ask(_UNTIE, self._ties.pop(slot)) for slot in gone],
            *[self._ask(_LOOK, key) for key in self._wishes],
        ]

    # ── what is heard ────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, reply: Any) -> list[Words]:
        """Takes what came: a message, which is a list, or the next answer. What is to be said now; raises a ``Fault`` that
        concerns everybody."""
        if isinstance(reply, list):
            return self._told(reply[0], reply[1])
        if not self._asked:
            raise Lost("an answer came that nobody asked for")
        verb, key, wish = self._asked.popleft()
        if isinstance(reply, Fault):
            return self._refused(verb, key, wish, reply)
        if verb == _CLAIM and wish is not None:
            return self._claimed(wish, key, came=reply is not None)
        if verb == _LOOK:
            if reply:
                return self._claim(key)
            self._heard.add(key)
        return []

    def broke(self, fault: Fault) -> None:
        """The connection is gone, and all that was asked on it."""
        wishes = [*self._wishes.values(), *[wish for _, _, wish in self._asked if wish is not None]]
        self._heard.clear()
        self._ties.clear()
        self._asked.clear()
        for wish in wishes:
            self._fail(wish, fault)

    def _told(self, kind: bytes, what: Any) -> list[Words]:
        if kind == b"invalidate":
            said: list[Words] = []
            for key in list(self._heard | self._wishes.keys()) if what is None else what:
                self._heard.discard(key)
                if key in self._wishes:
                    said.append(self._ask(_LOOK, key))
            return said
        if kind in (b"ssubscribe", b"sunsubscribe"):
            verb, channel, _ = self._asked[0] if self._asked else (b"", b"", None)
            if verb in (_TIE, _UNTIE) and channel == what:
                self._asked.popleft()
            elif kind == b"sunsubscribe":
                self._slot_left(key_slot(what), Elsewhere("the slot has moved"))
        return []

    def _claim(self, key: bytes) -> list[Words]:
        wish = self._wishes.get(key)
        if wish is None:
            return []
        if wish.claiming:
            wish.later.append(key)
            return []
        wish.claiming = True
        return [self._ask(_CLAIM, key, wish)]

    def _claimed(self, wish: Wish, key: bytes, *, came: bool) -> list[Words]:
        wish.claiming = False
        if came:
            self._heard.discard(key)  # NOLOOP: its own change is not told, and forgotten
            wish.token = key
        if came or not wish.wanted:
            self._end(wish)
        elif wish.later:
            return self._claim(wish.later.pop())
        return []

    def _refused(self, verb: bytes, key: bytes, wish: Wish | None, fault: Fault) -> list[Words]:
        if verb == _TRACK:
            raise fault
        if verb == _TIE:
            self._ties.pop(key_slot(key), None)
            if isinstance(fault, Refused):  # an old server, or an ACL: the look-around does without
                self._tied = False
                return []
        wish = wish or self._wishes.get(key)
        if wish is not None:
            wish.claiming = False
            self._fail(wish, fault)
        return []

    def _slot_left(self, slot: int, fault: Fault) -> None:
        if self._ties.pop(slot, None) is not None:
            for wish in self._in(slot):
                self._fail(wish, fault)

    def _in(self, slot: int) -> Iterator[Wish]:
        return iter([wish for key, wish in self._wishes.items() if key_slot(key) == slot])

    def _fail(self, wish: Wish, fault: Fault) -> None:
        if not wish.over:
            wish.fault = fault
            self._end(wish)

    def _end(self, wish: Wish) -> None:
        for key in wish.keys:
            if self._wishes.get(key) is wish:
                del self._wishes[key]
        if not wish.over:
            wish.over = True
            wish.ring()

    def _ask(self, verb: bytes, key: bytes, wish: Wish | None = None) -> Words:
        self._asked.append((verb, key, wish))
        return verb, key
