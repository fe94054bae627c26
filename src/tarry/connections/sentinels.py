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

from tarry.connections.blocking import Server, pack, read_push_or_reply
from tarry.connections.faults import (
    CONNECTION_ERRORS,
    ConnectionLost,
    Fault,
    ServerRefused,
    TryLater,
    WrongNode,
    fault_of,
)
from tarry.connections.wake_event import SocketWakeEvent, WakeEvent

EVERY_S = 0.5
TRUSTED_S = 1.0
"""How long their word holds, from the moment at which they were asked."""
SILENT_S = 5.0
"""How long it holds that none of them answers; they are asked again meanwhile."""
ASK_TIMEOUT_S = 2.0
"""How long one Sentinel, or one node, may take to say where the others are."""
RETRY_S = 1.0
NEWEST_S = 30.0
"""How long those are not believed who are behind, after those were heard last who are not."""
_SUBSCRIBE_COMMAND = (b"SUBSCRIBE", b"+try-failover", b"+switch-master")
_MASTERS_COMMAND = (b"SENTINEL", b"MASTERS")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
now: Callable[[], float] = time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
"""Seconds that go on while the machine sleeps, where the system can count them."""


@dataclass(frozen=True, slots=True)
class MasterReport:
    """What one Sentinel says: the URL of the master, the number of that configuration, whether it sees the master up, and
    whether it is making another server the master."""

    url: str
    epoch: int
    up: bool = True
    switching: bool = False


class MasterClient(Protocol):
    """Whoever has connections to the master."""

    def switched(self) -> None:
        """Drops those to anybody else. Called on a thread of the Sentinels."""


def choose_report(answers: Sequence[MasterReport], before: MasterReport | None, *, of: int) -> MasterReport | None:
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
    return MasterReport(url, newest, any(one.up for one in said if one.url == url))


class Sentinels:
    """All that a URL names. Thread-safe and fork-safe; begins with the first ``look``, ends with the last client."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        read: Callable[[Any], MasterReport],
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
        self._report: MasterReport | None = None
        self._reported_at = 0.0
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a forked process: threads, connections and clients are the parent's."""
        self._lock = threading.Lock()
        self._clients: WeakSet[MasterClient] = WeakSet()
        self._asking: set[WakeEvent] = set()
        self._sentinels = [_Sentinel(self, url) for url in self._urls]
        self.sure_until = 0.0
        """Until then their word holds, or that none of them says anything."""
        self.switching = False
        """Whether one of them is making another server the master: what the old one is given now may be lost."""

    @property
    def wanted(self) -> bool:
        """Whether any client is there."""
        return bool(self._clients)

    def join(self, client: MasterClient) -> None:
        """It is told of a switch, until it leaves or is forgotten."""
        with self._lock:
            self._clients.add(client)

    def leave(self, client: MasterClient) -> None:
        with self._lock:
            self._clients.discard(client)
        if not self._clients:
            for one in self._sentinels:
                one.wake()

    def ask_all(self, within_s: float) -> None:
        """Asks all of them, and waits until enough have answered. Raises a ``Fault``, unless they name a master that is up."""
        since = now()
        silent = since + min(ASK_TIMEOUT_S, within_s / 2)

        def is_told() -> bool:
            some = now() >= silent and any(one.asked_at >= since for one in self._sentinels)
            return some or self._has_enough_reports(since)

        for one in self._sentinels:
            one.ask()
        if not self._wait(is_told, silent):
            self._wait(is_told, since + within_s)
        with self._lock:
            faults = [one.fault for one in self._sentinels if one.fault is not None]
            answered = any(one.asked_at >= since and one.report is not None for one in self._sentinels)
            named = self._report if answered else None
            believed = answered and self._choice() is not None
        if not answered:
            silence = ConnectionLost(f"no answer for {within_s:.1f} s")
            raise self._judge([*faults, *[silence] * (len(self._sentinels) - len(faults))])
        if named is None or not believed:
            raise TryLater("the Sentinels that answer tell of an older master than was known; the others are awaited")
        if not named.up:
            raise TryLater(f"no Sentinel names a master {self.name!r} that answers")

    def confirm(self, url: str, within_s: float) -> None:
        """Raises a ``Fault``, unless the Sentinels say now that this one is master."""
        self.ask_all(within_s)
        if self.master != url:
            raise WrongNode("the Sentinels name another master now")

    def settle(self, within_s: float) -> None:
        """Waits while they make another server the master. Raises a ``Fault`` when that takes longer."""
        if not self._wait(lambda: not self.switching, now() + within_s):
            raise TryLater("the Sentinels are making another server the master")

    def _wait(self, is_so: Callable[[], bool], until: float) -> bool:
        """Until something is so, which is looked at whenever one of them has answered or failed."""
        bell = WakeEvent()
        with self._lock:
            self._asking.add(bell)
        try:
            while not is_so():
                if (left := until - now()) <= 0:
                    return False
                bell.wait(left)
            return True
        finally:
            with self._lock:
                self._asking.discard(bell)

    def _has_enough_reports(self, since: float) -> bool:
        """Whether enough have answered: most of them, or all that do answer at all; or none can be reached."""
        if 2 * sum(one.asked_at >= since and one.report is not None for one in self._sentinels) > len(self._sentinels):
            return True
        if any(one.asked_at >= since for one in self._sentinels):
            return all(one.asked_at >= since or one.failing for one in self._sentinels)
        return all(one.failed_at >= since for one in self._sentinels)

    # ── on the threads ───────────────────────────────────────────────────────────────────────────────────────────────

    def notify(self) -> None:
        """One of them has answered, or failed."""
        with self._lock:
            choice, left = self._choice(), list[MasterClient]()
            if choice is not None:
                if choice.url != self.master:
                    left = list(self._clients)
                self._report, self._reported_at, self.master = choice, now(), choice.url
            self.switching = any(one.report is not None and one.report.switching for one in self._sentinels)
            self.sure_until = 0.0 if self.switching else self._until()
            lookers = list(self._asking)
        for client in left:
            client.switched()
        for bell in lookers:
            bell.set()

    def _choice(self) -> MasterReport | None:
        answers = [one.report for one in self._sentinels if one.report is not None]
        before = self._report if now() < self._reported_at + NEWEST_S else None
        return choose_report(answers, before, of=len(self._sentinels))

    def _until(self) -> float:
        well = sorted(one.asked_at for one in self._sentinels if not one.failing)
        if not well:
            return min(one.failed_at for one in self._sentinels) + SILENT_S
        most = len(self._sentinels) // 2 + 1
        return (well[-most] if len(well) >= most else well[0]) + TRUSTED_S


class _Sentinel:
    """One of them: its thread, its connection, and what it said last."""

    def __init__(self, all_of_them: Sentinels, url: str) -> None:
        self.asked_at = self.failed_at = 0.0
        """When it was asked what it answered last; when it did not answer."""
        self.failing = False
        self.report: MasterReport | None = None
        self.fault: Fault | None = None
        self._all = all_of_them
        self._server = Server(url, ASK_TIMEOUT_S, with_name=False)
        self._connection: Any = None
        self._asking_at: float | None = None
        self._at_once = False
        self._lock = threading.Lock()
        self._wakeup: SocketWakeEvent | None = None

    def ask(self) -> None:
        """Now, from any thread."""
        self._at_once = True
        with self._lock:
            if self._wakeup is None:
                self._wakeup = SocketWakeEvent()
                threading.Thread(target=self._run, name="tarry-sentinel", daemon=True).start()
            self._wakeup.set()

    def wake(self) -> None:
        with self._lock:
            if self._wakeup is not None:
                self._wakeup.set()

    def _run(self) -> None:
        assert self._wakeup is not None
        bell = self._wakeup
        while not self._is_over(bell):
            try:
                if self._connection is None:
                    self._at_once = False
                    self._connection = self._server.connect(push_messages=True)
                    self._send(_SUBSCRIBE_COMMAND)
                    read_push_or_reply(self._connection)  # it need not be allowed
                    self._ask()
                self._wait_for_work(bell)
                self._read_messages()
            except (*CONNECTION_ERRORS, UnicodeError) as error:
                self._disconnect()
                self.report, self.fault, self.failing, self.failed_at = None, fault_of(error), True, now()
                self._all.notify()
                if not self._at_once:
                    bell.wait(RETRY_S)

    def _is_over(self, bell: SocketWakeEvent) -> bool:
        """No client is there any more."""
        with self._lock:
            if self._all.wanted:
                return False
            self._wakeup = None
        self._disconnect()
        bell.close()
        return True

    def _wait_for_work(self, bell: SocketWakeEvent) -> None:
        """Until there is something to read, or it is time to ask again."""
        until = self._asking_at + ASK_TIMEOUT_S if self._asking_at is not None else self.asked_at + EVERY_S
        if not self._connection.can_read(0) and not (self._at_once and self._asking_at is None):
            bell.wait(until - now(), [self._connection._sock])

    def _read_messages(self) -> None:
        switched = False
        while self._connection.can_read(0):
            reply = read_push_or_reply(self._connection)
            if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
                switched = True
                continue
            self._answered(reply)
        if self._asking_at is not None:
            if now() >= self._asking_at + ASK_TIMEOUT_S:
                raise ConnectionLost(f"no answer for {ASK_TIMEOUT_S:g} s")
            self._at_once |= switched
        elif switched or self._at_once or now() >= self.asked_at + EVERY_S:
            self._ask()

    def _answered(self, reply: Any) -> None:
        if self._asking_at is None:
            raise ConnectionLost("an answer came that nobody asked for")
        asked_at, self._asking_at = self._asking_at, None
        if isinstance(reply, ServerRefused):
            raise reply
        try:
            if isinstance(reply, Fault):
                raise reply
            named, fault = self._all.read(reply), None
        except Fault as what:  # it answers, but names none
            named, fault = None, what
        self.report, self.fault, self.failing, self.asked_at = named, fault, False, asked_at
        self._all.notify()

    def _ask(self) -> None:
        self._at_once = False
        self._asking_at = now()
        self._send(_MASTERS_COMMAND)

    def _send(self, words: tuple[bytes, ...]) -> None:
        self._connection.send_packed_command([pack(words)], check_health=False)

    def _disconnect(self) -> None:
        connection, self._connection, self._asking_at = self._connection, None, None
        if connection is not None:
            with suppress(OSError):
                connection.disconnect()
