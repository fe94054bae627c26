"""The conditions of all topics of a service, for ``/metrics`` and ``/readyz``: by the function that the dashboard asks as well.

    stats of each topic, live workers, the server  ──▶  look_at_topics  ──▶  conditions of each topic, worst first

``/readyz`` is asked every few seconds, by each load balancer, so it takes those of the last half minute. They never decide its status.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.errors import TarryError
from tarry.programs.serving.conditions import KINDS, Condition, ServerFacts, assess_topic, severity

if TYPE_CHECKING:
    from tarry import AsyncClient, Stats
    from tarry.programs.service.skipped_topics import SkippedTopics
    from tarry.programs.serving.namespace_clients import NamespaceClients
    from tarry.types import WorkerInfo

MOST_TOPICS = 1000
"""Of a namespace; the others are left out."""
MOST_SHOWN = 10
KEPT_S = 30.0
LOOK_TIMEOUT_S = 0.5


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The topics of a namespace at one moment, its live workers, and the conditions of each topic."""

    namespace: str
    stats: Sequence[Stats]
    workers: Sequence[WorkerInfo]
    conditions: dict[str, tuple[Condition, ...]]


class TopicVerdict(Struct):
    """The worst condition of a topic."""

    namespace: str
    topic: str
    kind: str
    level: str
    sentence: str


async def look_at_topics(
    namespace: str, client: AsyncClient, server: ServerFacts, skipped: SkippedTopics
) -> TopicsSeen:
    """Asks for the stats of each topic of a namespace at once, a thousand at most; nothing is kept from one scrape to the next. Leaves
    out those that cannot be read. Raises ``TarryError``."""
    names = (await client.topics())[:MOST_TOPICS]
    requests = [skipped.or_none(f"topic {name} of {namespace}", client.topic(name).stats()) for name in names]
    known = [stats for stats in await asyncio.gather(*requests) if stats is not None]
    workers = await skipped.or_none(f"workers of {namespace}", client.workers()) or ()
    return TopicsSeen(
        namespace, known, tuple(workers), {stats.topic: assess_topic(stats, workers, server) for stats in known}
    )


class LastVerdicts:
    """The worst condition of each topic, as of the last half minute."""

    def __init__(self, skipped: SkippedTopics) -> None:
        self._skipped = skipped
        self._known: Sequence[tuple[str, str, tuple[Condition, ...]]] = ()
        self._looked_at = -math.inf
        self._looking = asyncio.Lock()

    async def look(self, clients: NamespaceClients, server: ServerFacts) -> None:
        """Looks again if the last look is too old; those that were seen last stay when it fails, or takes long."""
        with suppress(TarryError, TimeoutError):
            async with asyncio.timeout(LOOK_TIMEOUT_S), self._looking:
                now = asyncio.get_running_loop().time()
                if now - self._looked_at < KEPT_S:
                    return
                self._looked_at = now
                seen = [await look_at_topics(namespace, client, server, self._skipped) for namespace, client in clients]
                found = [(one.namespace, *pair) for one in seen for pair in one.conditions.items()]
                self._known = sorted(found, key=lambda one: (severity(one[2]), one[0], one[1]))

    def count(self) -> dict[str, int]:
        """How many topics have each condition as their worst one; neither empty ones nor those on time."""
        counts = Counter(conditions[0].kind for _, _, conditions in self._known)
        return {kind: counts[kind] for kind in KINDS if counts[kind] and kind not in ("empty", "on_time")}

    def worst(self, namespaces: Iterable[str]) -> list[TopicVerdict]:
        """The worst topics of some namespaces, ten at most."""
        shown = set(namespaces)
        found = [
            TopicVerdict(namespace, topic, conditions[0].kind, conditions[0].level, conditions[0].sentence)
            for namespace, topic, conditions in self._known
            if namespace in shown and conditions[0].kind not in ("empty", "on_time")
        ]
        return found[:MOST_SHOWN]
