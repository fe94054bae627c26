"""A connection until its TLS handshake has ended: it is counted and timed like any that has sent no head yet.

A server of asyncio or uvloop learns of a connection when its handshake is done. So the service accepts plain connections, and begins TLS
on the accepted socket.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from tarry.internal import failures
from tarry.programs.serving.connection_limits import HEAD_S, LAST_S, Phase, PortLimits


class TlsHandshake(asyncio.Protocol):
    """The handshake of one connection; ``make`` makes the protocol that speaks behind it."""

    transport: asyncio.Transport
    phase = Phase.HEAD
    received = 0
    """Bytes of a handshake are no progress."""

    def __init__(
        self, make: Callable[..., asyncio.Protocol], context: ssl.SSLContext, limits: PortLimits, **given: Any
    ) -> None:
        self._make, self._context, self._limits = partial(make, **given), context, limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has another base
        self._limits.admit(self)
        self._task = asyncio.ensure_future(self._shake_hands())
        failures.watch_task("tarry TLS", self._task)
        try:
            self._socket = transport.get_extra_info("socket").dup()
        except OSError:  # no file is free
            self._task.cancel()
            self._leave()
        self.transport.abort()  # the connection goes on as the other file

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        try:
            await loop.connect_accepted_socket(
                self._open,
                self._socket,
                ssl=self._context,
                ssl_handshake_timeout=HEAD_S,
                ssl_shutdown_timeout=LAST_S,
            )
        except OSError:
            pass  # it is no TLS, has no version in common, has gone, or took too long
        finally:
            self._leave()

    def _open(self) -> asyncio.Protocol:
        """The connection behind the handshake. It is counted by itself from its begin on, when this one no longer is."""
        connection = self._make()
        begin = connection.connection_made

        def connection_made(transport: asyncio.BaseTransport) -> None:
            self._leave()
            begin(transport)

        connection.connection_made = connection_made  # type: ignore[method-assign]
        return connection

    def _leave(self) -> None:
        self._limits.remove(self)

    def end(self, error: Exception, *, at_once: bool) -> None:  # noqa: ARG002  # TLS has no words for it yet
        """Ends it: its handshake takes too long, or its file is needed."""
        self._task.cancel()
