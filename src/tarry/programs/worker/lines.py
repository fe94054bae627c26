"""What the worker says, as small pictures: → taken, ✓ finished, ↻ again later, ✗ lost. One job a line at DEBUG."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tarry.clients.aio.topic import AsyncJob
from tarry.errors import StaleReceipt

logger = logging.getLogger("tarry.worker")
_MS = 1000.0


def taken(jobs: Sequence[AsyncJob[Any]]) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        for job in jobs:
            late = job.lateness.total_seconds() * _MS
            logger.debug("→ %s/%s attempt %d, %.1f ms late", job.topic, job.id, job.attempt, late)


def finished(jobs: Sequence[AsyncJob[Any]]) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        for job in jobs:
            logger.debug("✓ %s/%s attempt %d", job.topic, job.id, job.attempt)


def failed(job: AsyncJob[Any], fault: Exception) -> None:
    logger.warning("↻ %s/%s attempt %d failed: %s: %s", job.topic, job.id, job.attempt, type(fault).__name__, fault)


def stale(topic: str, fault: StaleReceipt) -> None:
    logger.warning("✗ %s: %s", topic, fault)
