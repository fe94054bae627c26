"""A server that does not answer, or refuses: logged once when it begins and once when it ends, retried with growing pauses.

    component of a worker   request ──▶ failed ──▶ pause ──▶ request ──▶ answered     each has its own tries and pauses
    outage                  logs: ✗ …                        logs: ✓ …                when no component fails any more

A refusal ends the worker as long as the server has never answered that component. After the first answer the component
retries whatever the server says: a full disk passes, and so does a password that somebody is changing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tarry.clients.replies import RETURNED
from tarry.clients.replies import logger as retry_logger
from tarry.core.patience import Patience
from tarry.errors import TarryError, Unavailable

logger = logging.getLogger("tarry.worker")
PATIENCE = Patience(float("inf"))


class Outage:
    """The state of the server for a whole worker; shared by the event loop and the renewal thread."""

    def __init__(self) -> None:
        self.ever_answered = False
        """Whether the server has ever answered any component."""
        self._logged_codes: set[str] = set()
        self._began_at = self._over_at = -math.inf
        self._failing: set[ServerHealth] = set()
        self._lock = threading.Lock()
        self.on_over: Callable[[], None] = lambda: None
        """Called when an outage is over, in the thread of the component that was answered."""

    @property
    def ongoing(self) -> bool:
        return bool(self._logged_codes)

    def report(self, fault: TarryError, health: ServerHealth | None = None) -> None:
        """Logs the failure, once for each error code until the outage is over."""
        with self._lock:
            if health is not None:
                self._failing.add(health)
            is_new = fault.code not in self._logged_codes
            if not self._logged_codes:
                self._began_at = time.monotonic()
            self._logged_codes.add(fault.code)
        if is_new:
            logger.warning("✗ %s Waiting for it.", fault)

    @contextmanager
    def logs_retries_of(self, server: str) -> Generator[None]:
        """In this block a server that does not answer is logged by the outage: when that has lasted a second, and once. Each client
        of a worker, and each of its requests, would log its own retries."""

        def of_another_server(line: logging.LogRecord) -> bool:
            shown, *told = line.args if isinstance(line.args, tuple) else (None,)
            if shown != server:
                return True
            if line.msg == RETURNED:  # the end of an outage that was logged is logged already, or will be
                waited: Any = told[0]
                return not self.ongoing and time.monotonic() - self._over_at > waited
            does, why, *_ = told
            if line.levelno >= logging.WARNING:
                self.report(Unavailable(f"The server at {shown} {does}: {why}."))
            return False

        retry_logger.addFilter(of_another_server)
        try:
            yield
        finally:
            retry_logger.removeFilter(of_another_server)

    def mark_idle(self, health: ServerHealth) -> None:
        """The component sends no requests for now: it does not keep the outage going."""
        with self._lock:
            self._failing.discard(health)

    def mark_answered(self, health: ServerHealth) -> None:
        """The server answered the component. Logs the end of the outage when no other component fails."""
        with self._lock:
            self._failing.discard(health)
            if self._failing or not self._logged_codes:
                return
            self._logged_codes.clear()
            self._over_at = time.monotonic()
        logger.warning("✓ The server answers again, after %.1f s.", self._over_at - self._began_at)
        self.on_over()


class ServerHealth:
    """The server as one component that sends requests of its own sees it: a pop loop, a topic's settler, the renewal thread."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._tries = 0
        self._answered = False

    @property
    def healthy(self) -> bool:
        """Whether the last request was answered."""
        return self._answered and not self._tries

    def should_retry(self, fault: TarryError) -> bool:
        """Whether another try can help."""
        return self._answered or isinstance(fault, Unavailable)

    def failed(self, fault: TarryError) -> None:
        """A request failed; the component will retry."""
        self._tries += 1
        self._outage.report(fault, self)

    async def back_off(self, fault: TarryError) -> None:
        """A request failed: sleeps before the next try."""
        self.failed(fault)
        await asyncio.sleep(PATIENCE.delay_before(self._tries, 0, random.random()) or 0)

    def idle(self) -> None:
        """The component has nothing to request."""
        if self._tries:
            self._tries = 0
            self._outage.mark_idle(self)

    def recovered(self) -> None:
        """The server answered, in case that a request failed before."""
        if self._tries:
            self.succeeded()

    def succeeded(self) -> None:
        """The server answered."""
        self._answered = self._outage.ever_answered = True
        if self._tries or self._outage.ongoing:
            self._tries = 0
            self._outage.mark_answered(self)
