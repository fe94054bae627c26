"""The conditions of all topics of a service, for ``/metrics`` and ``/readyz``: by the function that the dashboard asks as well.

    stats of each topic, live workers, the server  ──▶  look_at_topics  ──▶  conditions of each topic, worst first

``/readyz`` is asked every few seconds, by each load balancer, so it takes those of the last half minute. They never decide its status.
The service itself looks every half minute (metrics.py), so the log says what becomes bad, also where nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.errors import TarryError
from tarry.programs.serving.conditions import KINDS, SERVER_KINDS, Condition, ServerFacts, assess_topic, severity

if TYPE_CHECKING:
    from tarry import AsyncClient, Stats
    from tarry.programs.service.skipped_topics import SkippedTopics
    from tarry.programs.serving.namespace_clients import NamespaceClients
    from tarry.types import WorkerInfo

logger = logging.getLogger("tarry")
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
        self._bad: dict[tuple[str, str], set[str]] = {}
        """The bad conditions of topics that the log has told."""

    async def look(self, clients: NamespaceClients, server: ServerFacts) -> None:
        """Looks again if the last look is too old; those that were seen last stay when it fails, or takes long."""
        with suppress(TarryError, TimeoutError):
            async with asyncio.timeout(LOOK_TIMEOUT_S), self._looking:
                now = asyncio.get_running_loop().time()
                if now - self._looked_at < KEPT_S:
                    return
                self._looked_at = now
                await self.look_now(clients, server)

    async def look_now(self, clients: NamespaceClients, server: ServerFacts) -> None:
        """Looks again, and logs what has become bad or is over. Raises ``TarryError``."""
        seen = [await look_at_topics(namespace, client, server, self._skipped) for namespace, client in clients]
        found = [(one.namespace, *pair) for one in seen for pair in one.conditions.items()]
        self._known = sorted(found, key=lambda one: (severity(one[2]), one[0], one[1]))
        self._log_changes()

    def _log_changes(self) -> None:
        """One line for each topic of which something became bad, or nothing is bad any more; ten of each at most."""
        before, self._bad = self._bad, {(one[0], one[1]): bad for one in self._known if (bad := _bad_kinds(one[2]))}
        worse = [one for one in self._known if _bad_kinds(one[2]) - before.get((one[0], one[1]), set())]
        over = sorted(before.keys() - self._bad.keys())
        for namespace, topic, conditions in worse[:MOST_SHOWN]:
            kinds = _bad_kinds(conditions)
            told = " ".join(one.sentence for one in conditions if one.kind in kinds)
            fields = {"namespace": namespace, "topic": topic, "conditions": sorted(kinds)}
            logger.warning("✗ topic %s of %s: %s", topic, namespace, told, extra={"tarry": fields})
        if len(worse) > MOST_SHOWN:
            logger.warning("✗ %d more topics need attention; `tarry doctor` names them.", len(worse) - MOST_SHOWN)
        for namespace, topic in over[:MOST_SHOWN]:
            fields = {"namespace": namespace, "topic": topic, "conditions": []}
            logger.warning(
                "✓ topic %s of %s: nothing is wrong with it any more.", topic, namespace, extra={"tarry": fields}
            )
        if len(over) > MOST_SHOWN:
            logger.warning("✓ Nothing is wrong with %d more topics any more.", len(over) - MOST_SHOWN)

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


def _bad_kinds(conditions: Iterable[Condition]) -> set[str]:
    """Those of the topic alone: the server's are logged by what looks at servers."""
    return {one.kind for one in conditions if one.level == "bad" and one.kind not in SERVER_KINDS}
