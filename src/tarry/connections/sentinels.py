"""The Sentinels of a URL: they are asked for the master all the time, once for all clients of this process.

    client ── sure? ──▶ Sentinels ◀── one thread each ──▶ Sentinel        SENTINEL MASTERS twice a second, and at once
       ▲                    │                                             after +try-failover or +switch-master
       └── drops every connection to a server that is no longer master

A verb is sent only if the Sentinels have named the master within the last second; otherwise they are asked first, for instance
after an hour, or in a process that was stopped meanwhile. During a fail-over verbs wait: the old master would take writes that the
new one never gets. A new connection is made only to the master that the Sentinels name *now*. The master is the one that most
Sentinels with the newest configuration epoch name; reports of older epochs are ignored. If no Sentinel answers, existing
connections stay in use, and no new one is made (docs/decisions/0038-sentinels-are-asked-all-the-time.md).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

from tarry.connections.address import ASK_TIMEOUT_S
from tarry.connections.background import start_thread
from tarry.connections.blocking import Server, read_push_or_reply, socket_of
from tarry.connections.clock import now
from tarry.connections.faults import (
    ConnectionLost,
    Fault,
    ServerRefused,
    TryLater,
    lost_by,
)
from tarry.connections.resp import pack
from tarry.connections.wake_event import SocketWakeEvent, WakeEvent

WORK = "tarry-sentinel"
EVERY_S = 0.5
TRUSTED_S = 1.0
"""How long a report counts, from the moment of the request."""
SILENT_S = 5.0
"""How long verbs may go on after all Sentinels failed to answer; they are asked again meanwhile."""
RETRY_S = 1.0
NEWEST_S = 30.0
"""How long reports of an older epoch are ignored after the last report of the newest one."""
_SUBSCRIBE_COMMAND = (b"SUBSCRIBE", b"+try-failover", b"+switch-master")
_MASTERS_COMMAND = (b"SENTINEL", b"MASTERS")


@dataclass(frozen=True, slots=True)
class MasterReport:
    """The report of one Sentinel: the master's URL, the configuration epoch, whether the master is up, and whether a fail-over is in
    progress."""

    url: str
    epoch: int
    up: bool = True
    switching: bool = False


class MasterClient(Protocol):
    """Has connections to the master."""

    def master_changed(self) -> None:
        """Drops the connections to any other server. Called on a thread of the Sentinels."""


def choose_report(reports: Sequence[MasterReport], previous: MasterReport | None, *, total: int) -> MasterReport | None:
    """The report to trust, of those of ``total`` Sentinels that answered; ``previous`` was trusted before. ``None`` if all are of
    an older epoch."""
    newest = max((report.epoch for report in reports), default=-1)
    if newest < 0 or (previous is not None and newest < previous.epoch and len(reports) < total):
        return None  # if all Sentinels have an older epoch, the master was configured again
    current = [report for report in reports if report.epoch == newest]
    votes = Counter(report.url for report in current)
    most = max(votes.values())
    url = next(url for url, count in votes.items() if count == most)
    if previous is not None and votes.get(previous.url) == most:
        url = previous.url
    return MasterReport(url, newest, any(report.up for report in current if report.url == url))


class Sentinels:
    """All Sentinels of a URL. Thread-safe and fork-safe. The threads start with the first ``ask_all``, and end with the last client."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        read: Callable[[Any], MasterReport],
        judge: Callable[[Sequence[Fault]], Exception],
    ) -> None:
        """``read``: parses a reply into the report of the master with this name; raises a ``Fault``. ``judge``: makes one error of
        the faults of all Sentinels."""
        self.name = name
        self.master = ""
        """The URL of the master that was reported last."""
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
        self._waiting: set[WakeEvent] = set()
        self._sentinels = [_Sentinel(self, url) for url in self._urls]
        self.master_known_until = 0.0
        """Until when verbs may be sent without asking first."""
        self.switching = False
        """Whether a fail-over is in progress: writes to the old master may be lost."""

    @property
    def master_known(self) -> bool:
        """Whether verbs may be sent without asking first."""
        return now() < self.master_known_until

    @property
    def wanted(self) -> bool:
        """Whether there is any client."""
        return bool(self._clients)

    def join(self, client: MasterClient) -> None:
        """Adds a client, which is notified of a new master until it leaves or is garbage collected."""
        with self._lock:
            self._clients.add(client)

    def leave(self, client: MasterClient) -> None:
        with self._lock:
            self._clients.discard(client)
        if not self._clients:
            for sentinel in self._sentinels:
                sentinel.wake()

    def ask_all(self, within_s: float) -> None:
        """Asks all Sentinels, and waits until enough have answered. Raises a ``Fault``, unless they name a master that is up."""
        since = now()
        some_suffice_at = since + min(ASK_TIMEOUT_S, within_s / 2)

        def is_answered() -> bool:
            some = now() >= some_suffice_at and any(sentinel.asked_at >= since for sentinel in self._sentinels)
            return some or self._has_enough_reports(since)

        for sentinel in self._sentinels:
            sentinel.ask()
        if not self._wait(is_answered, some_suffice_at):
            self._wait(is_answered, since + within_s)
        with self._lock:
            faults = [sentinel.fault for sentinel in self._sentinels if sentinel.fault is not None]
            answered = any(sentinel.asked_at >= since and sentinel.report is not None for sentinel in self._sentinels)
            report = self._report if answered else None
            trusted = answered and self._choice() is not None
        if not answered:
            silence = ConnectionLost(f"no answer for {within_s:.1f} s")
            raise self._judge([*faults, *[silence] * (len(self._sentinels) - len(faults))])
        if report is None or not trusted:
            raise TryLater("the Sentinels that answer name an older master; waiting for the others")
        if not report.up:
            raise TryLater(f"no Sentinel names a master {self.name!r} that answers")

    def wait_for_failover(self, within_s: float) -> None:
        """Waits while a fail-over is in progress. Raises a ``Fault`` if it takes longer."""
        if not self._wait(lambda: not self.switching, now() + within_s):
            raise TryLater("the Sentinels are making another server the master")

    def _wait(self, condition: Callable[[], bool], until: float) -> bool:
        """Waits for a condition, which is checked whenever a Sentinel has answered or failed."""
        event = WakeEvent()
        with self._lock:
            self._waiting.add(event)
        try:
            while not condition():
                if (left := until - now()) <= 0:
                    return False
                event.wait(left)
            return True
        finally:
            with self._lock:
                self._waiting.discard(event)

    def _has_enough_reports(self, since: float) -> bool:
        """Whether enough have answered: most of them, or all that can be reached; or none can be reached."""
        sentinels = self._sentinels
        if 2 * sum(sentinel.asked_at >= since and sentinel.report is not None for sentinel in sentinels) > len(
            sentinels
        ):
            return True
        if any(sentinel.asked_at >= since for sentinel in sentinels):
            return all(sentinel.asked_at >= since or sentinel.failing for sentinel in sentinels)
        return all(sentinel.failed_at >= since for sentinel in sentinels)

    # ── on the threads ───────────────────────────────────────────────────────────────────────────────────────────────

    def notify(self) -> None:
        """A Sentinel has answered, or failed: updates the master."""
        with self._lock:
            choice, clients = self._choice(), list[MasterClient]()
            if choice is not None:
                if choice.url != self.master:
                    clients = list(self._clients)
                self._report, self._reported_at, self.master = choice, now(), choice.url
            self.switching = any(
                sentinel.report is not None and sentinel.report.switching for sentinel in self._sentinels
            )
            self.master_known_until = 0.0 if self.switching else self._trusted_until()
            events = list(self._waiting)
        for client in clients:
            client.master_changed()
        for event in events:
            event.set()

    def _choice(self) -> MasterReport | None:
        reports = [sentinel.report for sentinel in self._sentinels if sentinel.report is not None]
        previous = self._report if now() < self._reported_at + NEWEST_S else None
        return choose_report(reports, previous, total=len(self._sentinels))

    def _trusted_until(self) -> float:
        asked_at = sorted(sentinel.asked_at for sentinel in self._sentinels if not sentinel.failing)
        if not asked_at:
            return min(sentinel.failed_at for sentinel in self._sentinels) + SILENT_S
        majority = len(self._sentinels) // 2 + 1
        return (asked_at[-majority] if len(asked_at) >= majority else asked_at[0]) + TRUSTED_S


class _Sentinel:
    """One Sentinel: its thread, its connection, and its last report."""

    def __init__(self, sentinels: Sentinels, url: str) -> None:
        self.asked_at = self.failed_at = 0.0
        """When the last answered request was sent; when a request failed last."""
        self.failing = False
        self.report: MasterReport | None = None
        self.fault: Fault | None = None
        self._sentinels = sentinels
        self._server = Server(url, ASK_TIMEOUT_S, with_name=False)
        self._connection: Any = None
        self._asking_at: float | None = None
        self._at_once = False
        self._lock = threading.Lock()
        self._wakeup: SocketWakeEvent | None = None

    def ask(self) -> None:
        """Asks it now; from any thread."""
        self._at_once = True
        with self._lock:
            if self._wakeup is None:
                self._wakeup = SocketWakeEvent()
                start_thread(WORK, self._run)
            self._wakeup.set()

    def wake(self) -> None:
        with self._lock:
            if self._wakeup is not None:
                self._wakeup.set()

    def _run(self) -> None:
        assert self._wakeup is not None
        event = self._wakeup
        while not self._is_over(event):
            try:
                if self._connection is None:
                    self._at_once = False
                    self._connection = self._server.connect(push_messages=True)
                    self._send(_SUBSCRIBE_COMMAND)
                    read_push_or_reply(self._connection)  # an ACL may forbid it: then it is asked twice a second only
                    self._ask()
                self._wait_for_work(event)
                self._read_messages()
            except Exception as error:  # noqa: BLE001  # whatever it is, the thread must not end: nobody would ask it again
                self._disconnect()
                self.report, self.fault, self.failing, self.failed_at = None, lost_by(error, WORK), True, now()
                self._sentinels.notify()
                if not self._at_once:
                    event.wait(RETRY_S)

    def _is_over(self, event: SocketWakeEvent) -> bool:
        """Whether there is no client any more; then it disconnects."""
        with self._lock:
            if self._sentinels.wanted:
                return False
            self._wakeup = None
        self._disconnect()
        event.close()
        return True

    def _wait_for_work(self, event: SocketWakeEvent) -> None:
        """Waits until there is something to read, or it is time to ask again."""
        until = self._asking_at + ASK_TIMEOUT_S if self._asking_at is not None else self.asked_at + EVERY_S
        if not self._connection.can_read(0) and not (self._at_once and self._asking_at is None):
            event.wait(until - now(), [socket_of(self._connection)])

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
            raise ConnectionLost("an unexpected reply came")
        asked_at, self._asking_at = self._asking_at, None
        if isinstance(reply, ServerRefused):
            raise reply
        try:
            if isinstance(reply, Fault):
                raise reply
            report, fault = self._sentinels.read(reply), None
        except Fault as error:  # it answers, but names no master
            report, fault = None, error
        self.report, self.fault, self.failing, self.asked_at = report, fault, False, asked_at
        self._sentinels.notify()

    def _ask(self) -> None:
        self._at_once = False
        self._asking_at = now()
        self._send(_MASTERS_COMMAND)

    def _send(self, command: tuple[bytes, ...]) -> None:
        self._connection.send_packed_command([pack(command)], check_health=False)

    def _disconnect(self) -> None:
        connection, self._connection, self._asking_at = self._connection, None, None
        if connection is not None:
            with suppress(Exception):  # it is broken, perhaps in a way that the driver does not expect
                connection.disconnect()
