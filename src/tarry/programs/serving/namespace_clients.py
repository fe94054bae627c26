"""The service's clients, one for each namespace, and a cache of topic handles."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tarry import AsyncClient, AsyncTopic
from tarry.internal import OwnTopic
from tarry.programs.serving.problems import Forbidden
from tarry.wire.bodies import Body, PassThroughCodec

MOST_TOPICS = 4096
"""How many handles are cached; another one is made in microseconds."""
OpenClient = Callable[[str], AsyncClient]


class NamespaceClients:
    """The clients by namespace. ``open_client`` makes the client of a namespace."""

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
        """Serves one more namespace, with a client that the caller made."""
        self._clients[namespace] = client

    async def drop(self, namespace: str) -> None:
        """Stops serving a namespace, and closes its client."""
        client = self._clients.pop(namespace)
        self._topics = OrderedDict((place, one) for place, one in self._topics.items() if place[0] != namespace)
        await client.close()

    def topic(self, namespace: str, name: str) -> AsyncTopic[Body]:
        """A topic whose bodies pass through undecoded. Raises ``BadInput`` for a bad name."""
        place = (namespace, name)
        if place in self._topics:
            return self._topics[place]
        found = self._topics[place] = self[namespace].topic(name, type=self._codec)
        if len(self._topics) > MOST_TOPICS:
            self._topics.popitem(last=False)
        return found

    def own_topic(self, namespace: str, own: OwnTopic) -> AsyncTopic[Body]:
        """A topic of a part of tarry, by the part's ``OwnTopic``. Not cached: the cache is asked by names from outside."""
        return self[namespace].topic(own, type=self._codec)

    def partitioned(self, namespace: str, name: str, number: int) -> AsyncTopic[Body]:
        """A topic with ``number`` partitions. The cached handle is dropped."""
        self._topics.pop((namespace, name), None)
        return self[namespace].topic(name, type=self._codec, partitions=number)

    async def close(self) -> None:
        await asyncio.gather(*[client.close() for client in self._clients.values()])
