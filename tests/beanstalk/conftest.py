"""A service with beanstalkd's protocol, in a namespace of its own for each test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from beanstalk.beans import Bean, beanstalkd
from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.beanstalk import server as beanstalk
from tarry.programs.beanstalk.server import BeanstalkServer, BeanstalkSettings
from tarry.programs.service.settings import ServiceSettings


class Beanstalk:
    """A service, and its port for beanstalkd's clients."""

    def __init__(self, running_service: RunningService, url: str, namespace: str) -> None:
        self.running = running_service
        self.url = url
        self.namespace = namespace
        self.server: BeanstalkServer = running_service.app.parts[BeanstalkServer]
        listening = self.server._listening
        assert listening is not None
        found: socket.socket = listening.sockets[0]
        self.port: int = found.getsockname()[1]
        self._open = ExitStack()

    def connect(self) -> Bean:
        """A connection that the fixture closes."""
        return self._open.enter_context(Bean(self.port))

    def close(self) -> None:
        self._open.close()


@contextmanager
def speaking(
    url: str, namespace: str, settings: BeanstalkSettings | None = None, service: ServiceSettings | None = None
) -> Iterator[Beanstalk]:
    """A service of its own."""
    chosen = service or ServiceSettings(namespaces=(namespace,))
    with serve(lambda name: AsyncClient(url, namespace=name), chosen) as running_service:
        running_service.run(beanstalk.start(running_service.app, settings or BeanstalkSettings(port=0)))
        made = Beanstalk(running_service, url, namespace)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def service(valkey_url: str, namespace: str) -> Iterator[Beanstalk]:
    with speaking(valkey_url, namespace) as made:
        yield made


@pytest.fixture
def connect(service: Beanstalk) -> Callable[[], Bean]:
    return service.connect


@pytest.fixture(scope="session")
def real_beanstalkd() -> Iterator[int]:
    """The port of beanstalkd itself."""
    with beanstalkd() as port:
        yield port
