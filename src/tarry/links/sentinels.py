"""The Sentinels of a URL: who is master, heard all the time, for all clients of this process together.

    client ── sure? ──▶ Sentinels ◀── one thread each ──▶ Sentinel        SENTINEL MASTERS twice a second, and at once
       ▲                    │                                             when it says +try-failover or +switch-master
       └── drops every connection to who is no longer master

A verb goes to a master that was named within the last second, or its name is asked first: so it does after an hour, and in a
process that was stopped meanwhile. While one of them makes another server the master, verbs wait: the old one would take what
the new one never hears of. A connection is made to whom the Sentinels name *now*. What they name is what most of them
say who have the newest configuration; one that is behind is not believed. Where none of them answers, connections that there
are stay in use, and no new one is made (docs/decisions/0038-sentinels-are-asked-all-the-time.md).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from weakref import WeakSet

from tarry.links.bell import Bell, SocketBell
from tarry.links.blocking import Server, pack, read_any
from tarry.links.faults import TROUBLES, Elsewhere, Fault, Later, Lost, Refused, meaning

EVERY_S = 0.5
BELIEVED_S = 1.0
"""How long their word holds, from the moment at which they were asked."""
SILENT_S = 5.0
"""How long it holds that none of them answers; they are asked again meanwhile."""
LOOK_S = 2.0
"""How long one Sentinel, or one node, may take to say where the others are."""
AGAIN_S = 1.0
NEWEST_S = 30.0
"""How long those are not believed who are behind, after those were heard last who are not."""
_HEAR = (b"SUBSCRIBE", b"+try-failover", b"+switch-master")
_ASK = (b"SENTINEL", b"MASTERS")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
now: Callable[[], float] = time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
"""Seconds that go on while the machine sleeps, where the system can count them."""


@dataclass(frozen=True, slots=True)
class Named:
    """What one Sentinel says: the URL of the master, the number of that configuration, whether it sees the master up, and
    whether it is making another server the master."""

    url: str
    epoch: int
    up: bool = True
    switching: bool = False


class Client(Protocol):
    """Whoever has connections to the master."""

    def switched(self) -> None:
        """Drops those to anybody else. Called on a thread of the Sentinels."""


def chosen(answers: Sequence[Named], before: Named | None, *, of: int) -> Named | None:
    """Whom to believe, of all that answer, ``of`` so many; who was master ``before``. ``None`` where only those answer who are
    behind."""
    newest = max((one.epoch for one in answers), default=-1)
    if newest < 0 or (before is not None and newest < before.epoch and len(answers) < of):
        return None  # all of them say so only where the master was named to them anew
    said = [one for one in answers if one.epoch == newest]
    votes = Counter(one.url for one in said)
    most = max(votes.values())
    url = next(url for url, count in votes.items() if count == most)
    if before is not None and votes.get(before.url) == most:
        url = before.url
    return Named(url, newest, any(one.up for one in said if one.url == url))


class Sentinels:
    """All that a URL names. Thread-safe and fork-safe; begins with the first ``look``, ends with the last client."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        read: Callable[[Any], Named],
        judge: Callable[[Sequence[Fault]], Exception],
    ) -> None:
        """``read``: what an answer says of the master of this name; raises a ``Fault``. ``judge``: what it means that all of
        them ended in one."""
        self.name = name
        self.master = ""
        """The URL of the master, as it was said last."""
        self.read = read
        self._judge = judge
        self._urls = urls
        self._named: Named | None = None
        self._named_at = 0.0
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked process: threads, connections and clients are the parent's."""
        self._lock = threading.Lock()
        self._clients: WeakSet[Client] = WeakSet()
        self._lookers: set[Bell] = set()
        self._ones = [_Sentinel(self, url) for url in self._urls]
        self.sure_until = 0.0
        """Until then their word holds, or that none of them says anything."""
        self.switching = False
        """Whether one of them is making another server the master: what the old one is given now may be lost."""

    @property
    def wanted(self) -> bool:
        """Whether any client is there."""
        return bool(self._clients)

    def join(self, client: Client) -> None:
        """It is told of a switch, until it leaves or is forgotten."""
        with self._lock:
            self._clients.add(client)

    def leave(self, client: Client) -> None:
        with self._lock:
            self._clients.discard(client)
        if not self._clients:
            for one in self._ones:
                one.ring()

    def look(self, within_s: float) -> None:
        """Asks all of them, and waits until enough have answered. Raises a ``Fault``, unless they name a master that is up."""
        since = now()
        silent = since + min(LOOK_S, within_s / 2)

        def is_told() -> bool:
            some = now() >= silent and any(one.asked_at >= since for one in self._ones)
            return some or self._is_told(since)

        for one in self._ones:
            one.ask()
        if not self._wait(is_told, silent):
            self._wait(is_told, since + within_s)
        with self._lock:
            faults = [one.fault for one in self._ones if one.fault is not None]
            answered = any(one.asked_at >= since and one.named is not None for one in self._ones)
            named = self._named if answered else None
            believed = answered and self._choice() is not None
        if not answered:
            silence = Lost(f"no answer for {within_s:.1f} s")
            raise self._judge([*faults, *[silence] * (len(self._ones) - len(faults))])
        if named is None or not believed:
            raise Later("the Sentinels that answer tell of an older master than was known; the others are awaited")
        if not named.up:
            raise Later(f"no Sentinel names a master {self.name!r} that answers")

    def confirm(self, url: str, within_s: float) -> None:
        """Raises a ``Fault``, unless the Sentinels say now that this one is master."""
        self.look(within_s)
        if self.master != url:
            raise Elsewhere("the Sentinels name another master now")

    def settle(self, within_s: float) -> None:
        """Waits while they make another server the master. Raises a ``Fault`` when that takes longer."""
        if not self._wait(lambda: not self.switching, now() + within_s):
            raise Later("the Sentinels are making another server the master")

    def _wait(self, is_so: Callable[[], bool], until: float) -> bool:
        """Until something is so, which is looked at whenever one of them has answered or failed."""
        bell = Bell()
        with self._lock:
            self._lookers.add(bell)
        try:
            while not is_so():
                if (left := until - now()) <= 0:
                    return False
                bell.wait(left)
            return True
        finally:
            with self._lock:
                self._lookers.discard(bell)

    def _is_told(self, since: float) -> bool:
        """Whether enough have answered: most of them, or all that do answer at all; or none can be reached."""
        if 2 * sum(one.asked_at >= since and one.named is not None for one in self._ones) > len(self._ones):
            return True
        if any(one.asked_at >= since for one in self._ones):
            return all(one.asked_at >= since or one.failing for one in self._ones)
        return all(one.failed_at >= since for one in self._ones)

    # ── on the threads ───────────────────────────────────────────────────────────────────────────────────────────────

    def told(self) -> None:
        """One of them has answered, or failed."""
        with self._lock:
            choice, left = self._choice(), list[Client]()
            if choice is not None:
                if choice.url != self.master:
                    left = list(self._clients)
                self._named, self._named_at, self.master = choice, now(), choice.url
            self.switching = any(one.named is not None and one.named.switching for one in self._ones)
            self.sure_until = 0.0 if self.switching else self._until()
            lookers = list(self._lookers)
        for client in left:
            client.switched()
        for bell in lookers:
            bell.ring()

    def _choice(self) -> Named | None:
        answers = [one.named for one in self._ones if one.named is not None]
        before = self._named if now() < self._named_at + NEWEST_S else None
        return chosen(answers, before, of=len(self._ones))

    def _until(self) -> float:
        well = sorted(one.asked_at for one in self._ones if not one.failing)
        if not well:
            return min(one.failed_at for one in self._ones) + SILENT_S
        most = len(self._ones) // 2 + 1
        return (well[-most] if len(well) >= most else well[0]) + BELIEVED_S


class _Sentinel:
    """One of them: its thread, its connection, and what it said last."""

    def __init__(self, all_of_them: Sentinels, url: str) -> None:
        self.asked_at = self.failed_at = 0.0
        """When it was asked what it answered last; when it did not answer."""
        self.failing = False
        self.named: Named | None = None
        self.fault: Fault | None = None
        self._all = all_of_them
        self._server = Server(url, LOOK_S, named=False)
        self._connection: Any = None
        self._asking_at: float | None = None
        self._at_once = False
        self._lock = threading.Lock()
        self._bell: SocketBell | None = None

    def ask(self) -> None:
        """Now, from any thread."""
        self._at_once = True
        with self._lock:
            if self._bell is None:
                self._bell = SocketBell()
                threading.Thread(target=self._run, name="tarry-sentinel", daemon=True).start()
            self._bell.ring()

    def ring(self) -> None:
        with self._lock:
            if self._bell is not None:
                self._bell.ring()

    def _run(self) -> None:
        assert self._bell is not None
        bell = self._bell
        while not self._is_over(bell):
            try:
                if self._connection is None:
                    self._at_once = False
                    self._connection = self._server.connect(told=True)
                    self._say(_HEAR)
                    read_any(self._connection)  # it need not be allowed
                    self._ask()
                self._rest(bell)
                self._hear()
            except (*TROUBLES, UnicodeError) as error:
                self._hang_up()
                self.named, self.fault, self.failing, self.failed_at = None, meaning(error), True, now()
                self._all.told()
                if not self._at_once:
                    bell.wait(AGAIN_S)

    def _is_over(self, bell: SocketBell) -> bool:
        """No client is there any more."""
        with self._lock:
            if self._all.wanted:
                return False
            self._bell = None
        self._hang_up()
        bell.close()
        return True

    def _rest(self, bell: SocketBell) -> None:
        """Until there is something to read, or it is time to ask again."""
        until = self._asking_at + LOOK_S if self._asking_at is not None else self.asked_at + EVERY_S
        if not self._connection.can_read(0) and not (self._at_once and self._asking_at is None):
            bell.wait(until - now(), [self._connection._sock])

    def _hear(self) -> None:
        switched = False
        while self._connection.can_read(0):
            reply = read_any(self._connection)
            if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
                switched = True
                continue
            self._answered(reply)
        if self._asking_at is not None:
            if now() >= self._asking_at + LOOK_S:
                raise Lost(f"no answer for {LOOK_S:g} s")
            self._at_once |= switched
        elif switched or self._at_once or now() >= self.asked_at + EVERY_S:
            self._ask()

    def _answered(self, reply: Any) -> None:
        if self._asking_at is None:
            raise Lost("an answer came that nobody asked for")
        asked_at, self._asking_at = self._asking_at, None
        if isinstance(reply, Refused):
            raise reply
        try:
            if isinstance(reply, Fault):
                raise reply
            named, fault = self._all.read(reply), None
        except Fault as what:  # it answers, but names none
            named, fault = None, what
        self.named, self.fault, self.failing, self.asked_at = named, fault, False, asked_at
        self._all.told()

    def _ask(self) -> None:
        self._at_once = False
        self._asking_at = now()
        self._say(_ASK)

    def _say(self, words: tuple[bytes, ...]) -> None:
        self._connection.send_packed_command([pack(words)], check_health=False)

    def _hang_up(self) -> None:
        connection, self._connection, self._asking_at = self._connection, None, None
        if connection is not None:
            with suppress(OSError):
                connection.disconnect()
