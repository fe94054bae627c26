"""Finds the topics of a worker's patterns, also those that begin to exist while it runs.

first add ──▶ list of topics ──▶ message with the name ──▶ a consumer of the topic          within milliseconds
                     ▲
every ten seconds ───┘ SCARD: has it grown? then it is read                                 when the message was lost
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.awaited.pubsub import PubSub
from tarry.errors import TarryError
from tarry.values.keys import topics_key
from tarry.values.topic_patterns import matches
from tarry.verbs import namespaces
from tarry.worker.outage import Outage, ServerHealth

if TYPE_CHECKING:
    from tarry.clients.channels import Subscriber

logger = logging.getLogger("tarry.worker")
LOOK_EVERY_S = 10.0
TOGETHER_S = 0.02
"""Topics that come within this time are taken up together."""


class TopicDiscovery:
    """The topics of one run. ``on_found`` is called with the pattern of each new one; ``others`` have a handler of their own."""

    def __init__(
        self,
        client: AsyncClient,
        patterns: Sequence[str],
        others: Iterable[str],
        on_found: Callable[[dict[str, str]], None],
        outage: Outage,
    ) -> None:
        self._client = client
        self._patterns = patterns
        self._seen = set(others)
        self._on_found = on_found
        self._health = ServerHealth(outage)
        self._count = -1
        """How many topics the list had when it was read last."""
        self._named: list[str] = []
        self._wake = asyncio.Event()
        self._subscriber: Subscriber | None = None
        self._refusal = ""

    async def run(self) -> None:
        """Listens for new topics, forever."""
        try:
            while True:
                await self._try_once()
                try:
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._wake.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(TOGETHER_S)
        finally:
            self._unsubscribe()

    async def _try_once(self) -> None:
        self._wake.clear()
        named, self._named = self._named, []
        self._take_up(named)
        try:
            await self._subscribe()
            await self.look()
        except TarryError as fault:
            self._count = -1
            if self._health.should_retry(fault):
                self._health.failed(fault)
            elif str(fault) != self._refusal:
                self._refusal = str(fault)
                logger.warning("✗ New topics of %s are not found: %s", ", ".join(self._patterns), fault)
        else:
            self._health.succeeded()

    async def look(self) -> bool:
        """Reads the list of topics if it has grown. Returns whether there was a new one for this worker."""
        engine, namespace = self._client.engine, self._client.namespace
        if await engine.run(namespaces.count_topics(namespace)) == self._count:
            return False
        topics = await engine.run(namespaces.list_topics(namespace))
        self._count = len(topics)
        return self._take_up(topics)

    def _take_up(self, topics: Sequence[str]) -> bool:
        found: dict[str, str] = {}
        for topic in topics:
            if topic not in self._seen:
                self._seen.add(topic)
                pattern = next((one for one in self._patterns if matches(one, topic)), None)
                if pattern is not None:
                    found[topic] = pattern
        if found:
            self._on_found(found)
        return bool(found)

    async def _subscribe(self) -> None:
        if self._subscriber is None:
            key = topics_key(self._client.namespace)
            pubsub = self._client.engine.shared_part(PubSub)
            self._subscriber = await pubsub.subscribe(key, (key,), self._on_message, wait=False)

    def _unsubscribe(self) -> None:
        if self._subscriber is not None:
            self._client.engine.shared_part(PubSub).unsubscribe(self._subscriber)
            self._subscriber = None

    def _on_message(self, _channel: bytes, message: bytes) -> None:
        if message:
            self._named.append(message.decode("utf-8", "replace"))
        else:  # it is subscribed, again perhaps: a message may have been missed
            self._count = -1
        self._wake.set()
