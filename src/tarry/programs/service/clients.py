"""The service's clients, one for each namespace, and the topics that were asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.http.wire.bodies import Body, PassThroughCodec
from tarry.programs.service.problems import Forbidden

MOST_TOPICS = 4096
"""So many handles are kept; another one is made in microseconds."""
OpenClient = Callable[[str], AsyncClient]


class NamespaceClients:
    """Opens clients, hands out topics. ``opened`` makes the client of a namespace."""

    def __init__(self, namespaces: tuple[str, ...], open_client: OpenClient, max_body: int) -> None:
        self._open = open_client
        self._codec: Any = PassThroughCodec(max_body)
        self._clients = {name: open_client(name) for name in namespaces}
        self._topics: OrderedDict[tuple[str, str], AsyncTopic[Body]] = OrderedDict()

    @property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(self._clients)

    def __getitem__(self, namespace: str) -> AsyncClient:
        try:
            return self._clients[namespace]
        except KeyError:
            raise Forbidden(f"The namespace {namespace!r} is not served here.") from None

    def __iter__(self) -> Any:
        return iter(self._clients.items())

    def put(self, namespace: str, client: AsyncClient) -> None:
        """Serves one more namespace, by a client that somebody else made."""
        self._clients[namespace] = client

    async def drop(self, namespace: str) -> None:
        """Serves it no longer."""
        client = self._clients.pop(namespace)
        self._topics = OrderedDict((place, one) for place, one in self._topics.items() if place[0] != namespace)
        await client.close()

    def topic(self, namespace: str, name: str) -> AsyncTopic[Body]:
        """A topic whose bodies pass through as they are. Raises ``BadInput`` for a name that cannot be one."""
        place = (namespace, name)
        found = self._topics.get(place)
        if found is None:
            found = self._topics[place] = self[namespace].topic(name, type=self._codec)
            if len(self._topics) > MOST_TOPICS:
                self._topics.popitem(last=False)
        return found

    def partitioned(self, namespace: str, name: str, number: int) -> AsyncTopic[Body]:
        """A topic of so many partitions, once its verbs have asked; what was known of it before is forgotten."""
        self._topics.pop((namespace, name), None)
        return self[namespace].topic(name, type=self._codec, partitions=number)

    async def close(self) -> None:
        await asyncio.gather(*[client.close() for client in self._clients.values()])
