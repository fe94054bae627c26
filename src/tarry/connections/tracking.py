"""Waiting for tokens in many slots with one connection to a node, by CLIENT TRACKING. The commands, replies and times, without I/O.

    TokenWait ──▶ LLEN token            0: the server will send an invalidation when the list changes
                  invalidate token  ◀── the list has changed
              ──▶ LLEN token            0: another client was quicker, or the list was deleted; it is tracked again
                                        1: LPOP token: the wait has its token, or the list changes again

Several waits may be for one list: it is looked at once, and the first of them claims.

The server sends one invalidation for a list, and again one after the next LLEN. Superfluous ones (a deleted list, a full
tracking table, a flush) cost one LLEN. There is none when a slot moves to another node while its lists are empty: so on a Cluster the
connection subscribes to one sharded channel in each slot. Nobody publishes there; the server ends the subscription when the
slot moves. In case an ACL or an old server forbids it, or anything else is missed, all lists are checked every ten seconds;
a node that does not answer then counts as lost (docs/decisions/0022-tracking-beyond-sixteen.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tarry.connections.faults import ConnectionLost, Fault, ServerRefused, WrongNode
from tarry.connections.resp import Args
from tarry.connections.topology import slot_of

RECHECK_S = 10.0
LINGER_S = 1.0
"""Seconds until an unused connection is closed."""
SILENT = "the tracking connection has been silent for too long"

_TRACK, _LENGTH, _CLAIM, _SUBSCRIBE, _UNSUBSCRIBE = b"CLIENT", b"LLEN", b"LPOP", b"SSUBSCRIBE", b"SUNSUBSCRIBE"


class TokenWait:
    """One waiter's wait for a token in some keys of one slot. ``on_end`` is called when it is over."""

    __slots__ = ("claiming", "ended", "fault", "keys", "next_keys", "on_end", "token", "wanted")

    def __init__(self, keys: tuple[bytes, ...], on_end: Callable[[], None]) -> None:
        self.keys = keys
        self.on_end = on_end
        self.wanted = True
        self.ended = False
        self.token: bytes | None = None
        self.fault: Fault | None = None
        #: an LPOP was sent; never two at once, or one waiter could get two tokens
        self.claiming = False
        self.next_keys: list[bytes] = []


class TrackingLoop:
    """One tracking connection: its thread or task learns here what to send and how long to wait. The time is given.

    needs_connection ─▶ connect, start ─▶ turn ─▶ send, wait ─▶ on_message … ─▶ check_silence ─▶ is_over
                                                                     any error ─▶ disconnected
    """

    recheck_s, linger_s = RECHECK_S, LINGER_S

    def __init__(self, now: float, answer_timeout_s: float, *, cluster: bool) -> None:
        self.state = TrackingState(cluster=cluster)
        self.inbox: deque[TokenWait] = deque()
        """New waits, and those that are not wanted any more. Anybody may append to it."""
        self._answer_timeout_s = answer_timeout_s
        self._connected = False
        self._busy_at = self._rechecked_at = now
        self._awaiting_since: float | None = None

    @property
    def needs_connection(self) -> bool:
        return bool(self.inbox) and not self._connected

    def start(self, now: float) -> list[Args]:
        """The commands for a new connection."""
        self._connected, self._rechecked_at = True, now
        return self._expect_replies(self.state.start(), now)

    def turn(self, now: float) -> tuple[list[Args], float]:
        """The commands to send now, and when the next turn begins if nothing comes. All lists are checked every ``recheck_s``."""
        commands = self._empty_inbox() if self._connected else []
        if self.state.idle:
            until = self._busy_at + self.linger_s
        else:
            if now >= self._rechecked_at + self.recheck_s:
                self._rechecked_at = now
                commands += self.state.recheck()
            until = self._rechecked_at + self.recheck_s
        self._expect_replies(commands, now)
        return commands, until if self._silent_at is None else min(until, self._silent_at)

    def on_message(self, reply: Any, now: float) -> list[Args]:
        """Handles what came. Returns the commands to send; raises a ``Fault`` that ends all waits."""
        self._awaiting_since = now
        return self.state.on_message(reply)

    def check_silence(self, now: float) -> None:
        """After all messages that came: raises a ``Fault`` if a reply is overdue."""
        if not self.state.awaits_reply:
            self._awaiting_since = None
        elif self._silent_at is not None and now >= self._silent_at:
            raise ConnectionLost(SILENT)

    def is_over(self, now: float) -> bool:
        """Whether there has been no wait for ``linger_s``."""
        if self.inbox or not self.state.idle:
            self._busy_at = now
        return now >= self._busy_at + self.linger_s

    def disconnected(self, fault: Fault) -> None:
        """The connection was closed, or could not be made: all waits end, also those in the inbox."""
        self._connected, self._awaiting_since = False, None
        self._empty_inbox()
        self.state.connection_lost(fault)

    def _empty_inbox(self) -> list[Args]:
        commands: list[Args] = []
        while self.inbox:
            token_wait = self.inbox.popleft()
            if token_wait.wanted:
                commands += self.state.add(token_wait)
            else:
                self.state.remove(token_wait)
        return commands

    def _expect_replies(self, commands: list[Args], now: float) -> list[Args]:
        if commands and self._awaiting_since is None:
            self._awaiting_since = now
        return commands

    @property
    def _silent_at(self) -> float | None:
        """When an answer is overdue."""
        return None if self._awaiting_since is None else self._awaiting_since + self._answer_timeout_s


class TrackingState:
    """The waits of one connection, and the requests without a reply. Not thread-safe: it belongs to one thread, or one loop."""

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster
        self._waits: dict[bytes, list[TokenWait]] = {}
        self._tracked: set[bytes] = set()
        self._slot_subscriptions: dict[int, bytes] = {}
        self._awaited_replies: deque[tuple[bytes, bytes, TokenWait | None]] = deque()

    @property
    def awaits_reply(self) -> bool:
        """Whether a reply is expected."""
        return bool(self._awaited_replies)

    @property
    def idle(self) -> bool:
        return not self._waits and not self._awaited_replies

    # ── commands to send ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> list[Args]:
        """The commands for a new connection."""
        self._awaited_replies.append((_TRACK, b"", None))
        return [(_TRACK, b"TRACKING", b"ON", b"NOLOOP")]  # no invalidations for its own LPOPs

    def add(self, token_wait: TokenWait) -> list[Args]:
        """Adds a wait. Returns the commands to send."""
        commands: list[Args] = []
        for key in token_wait.keys:
            self._waits.setdefault(key, []).append(token_wait)
        slot = slot_of(token_wait.keys[0])
        if self._cluster and slot not in self._slot_subscriptions:
            self._slot_subscriptions[slot] = token_wait.keys[0]
            commands.append(self._command(_SUBSCRIBE, token_wait.keys[0]))
        return commands + [self._command(_LENGTH, key) for key in token_wait.keys if key not in self._tracked]

    def remove(self, token_wait: TokenWait) -> None:
        """Removes a wait. If its LPOP was sent, it ends with the reply: the waiter must answer the token."""
        token_wait.wanted = False
        if not token_wait.ended and not token_wait.claiming:
            self._end(token_wait)

    def recheck(self) -> list[Args]:
        """The commands that check all lists, sent every RECHECK_S."""
        self._tracked &= self._waits.keys()
        slots = {slot_of(key) for key in self._waits}
        gone = [slot for slot in self._slot_subscriptions if slot not in slots]
        return [
            *[self._command(_UNSUBSCRIBE, self._slot_subscriptions.pop(slot)) for slot in gone],
            *[self._command(_LENGTH, key) for key in self._waits],
        ]

    # ── replies and messages ─────────────────────────────────────────────────────────────────────────────────────────

    def on_message(self, reply: Any) -> list[Args]:
        """Handles a push message, which is a list, or the next reply. Returns the commands to send; raises a ``Fault`` that
        ends all waits."""
        if isinstance(reply, list):
            return self._on_push(reply[0], reply[1])
        if not self._awaited_replies:
            raise ConnectionLost("an unexpected reply came")
        verb, key, token_wait = self._awaited_replies.popleft()
        if isinstance(reply, Fault):
            return self._refused(verb, key, token_wait, reply)
        if verb == _CLAIM and token_wait is not None:
            return self._claimed(token_wait, key, has_token=reply is not None)
        if verb == _LENGTH:
            if reply:
                return self._claim(key)
            self._tracked.add(key)
        return []

    def connection_lost(self, fault: Fault) -> None:
        """Ends all waits with a fault."""
        token_waits = [
            *[token_wait for waits in self._waits.values() for token_wait in waits],
            *[token_wait for _, _, token_wait in self._awaited_replies if token_wait is not None],
        ]
        self._tracked.clear()
        self._slot_subscriptions.clear()
        self._awaited_replies.clear()
        for token_wait in token_waits:
            self._fail(token_wait, fault)

    def _on_push(self, kind: bytes, payload: Any) -> list[Args]:
        if kind == b"invalidate":
            commands: list[Args] = []
            for key in list(self._tracked | self._waits.keys()) if payload is None else payload:
                self._tracked.discard(key)
                if key in self._waits:
                    commands.append(self._command(_LENGTH, key))
            return commands
        if kind in (b"ssubscribe", b"sunsubscribe"):
            verb, channel, _ = self._awaited_replies[0] if self._awaited_replies else (b"", b"", None)
            if verb in (_SUBSCRIBE, _UNSUBSCRIBE) and channel == payload:
                self._awaited_replies.popleft()
            elif kind == b"sunsubscribe":
                self._slot_moved(slot_of(payload), WrongNode("the slot has moved"))
        return []

    def _claim(self, key: bytes) -> list[Args]:
        waits = self._waits.get(key)
        if not waits:
            return []
        token_wait = next((one for one in waits if not one.claiming), None)
        if token_wait is None:
            waits[0].next_keys.append(key)
            return []
        token_wait.claiming = True
        return [self._command(_CLAIM, key, token_wait)]

    def _claimed(self, token_wait: TokenWait, key: bytes, *, has_token: bool) -> list[Args]:
        token_wait.claiming = False
        if has_token:
            self._tracked.discard(key)  # NOLOOP: no invalidation for its own LPOP, and the list is tracked no more
            token_wait.token = key
        if has_token or not token_wait.wanted:
            self._end(token_wait)
            left = dict.fromkeys([key, *token_wait.next_keys] if has_token else token_wait.next_keys)
            return [self._command(_LENGTH, other) for other in left if other in self._waits]  # for other waits
        if token_wait.next_keys:
            return self._claim(token_wait.next_keys.pop())
        return []

    def _refused(self, verb: bytes, key: bytes, token_wait: TokenWait | None, fault: Fault) -> list[Args]:
        if verb == _TRACK:
            raise fault
        if verb == _SUBSCRIBE:
            self._slot_subscriptions.pop(slot_of(key), None)
            if isinstance(fault, ServerRefused):  # an old server, or an ACL: the recheck has to do
                self._cluster = False
                return []
        if token_wait is not None:
            token_wait.claiming = False
            self._fail(token_wait, fault)
        for other in list(self._waits.get(key, ())):
            self._fail(other, fault)
        return []

    def _slot_moved(self, slot: int, fault: Fault) -> None:
        if self._slot_subscriptions.pop(slot, None) is not None:
            for token_wait in self._waits_in_slot(slot):
                self._fail(token_wait, fault)

    def _waits_in_slot(self, slot: int) -> Iterator[TokenWait]:
        return iter([one for key, waits in self._waits.items() if slot_of(key) == slot for one in waits])

    def _fail(self, token_wait: TokenWait, fault: Fault) -> None:
        if not token_wait.ended:
            token_wait.fault = fault
            self._end(token_wait)

    def _end(self, token_wait: TokenWait) -> None:
        for key in token_wait.keys:
            waits = self._waits.get(key, [])
            if token_wait in waits:
                waits.remove(token_wait)
                if not waits:
                    del self._waits[key]
        if not token_wait.ended:
            token_wait.ended = True
            token_wait.on_end()

    def _command(self, verb: bytes, key: bytes, token_wait: TokenWait | None = None) -> Args:
        self._awaited_replies.append((verb, key, token_wait))
        return verb, key
