"""A process of the service, as ``tarry serve`` runs it: uvicorn, signals.

SIGTERM, Ctrl-C ─▶ drain: held and new requests get 503 ─▶ the port closes ─▶ running requests end ─▶ exit 0
a second one    ─▶ exits at once
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tarry.errors import BadInput, MissingExtra, ServerUnfit
from tarry.internal import NamespaceVerbs, perform, supervise_task
from tarry.programs.serving.listener import GRACE_S, WITHOUT_TOKENS
from tarry.programs.serving.stderr import write_line

if TYPE_CHECKING:
    import uvicorn

    from tarry.programs.service.app import ServiceApp
    from tarry.programs.serving.connection_limits import FileShares

MISSING_EXTRA = "The service needs more than the library: pip install 'tarry[http]'."
GC_THRESHOLD = 10_000
"""How many new objects trigger the cyclic garbage collector; 64 requests at once make some thousand."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The paths of a certificate and its key, as PEM."""

    certificate: str
    key: str | None = None


def require_extra() -> None:
    """Raises ``MissingExtra`` where the extra is not installed."""
    try:
        import httptools
        import prometheus_client
        import uvicorn
    except ImportError:
        raise MissingExtra(MISSING_EXTRA) from None
    del httptools, prometheus_client, uvicorn


def make_server(app: ServiceApp, *, tls: TlsFiles | None = None, files: FileShares | None = None) -> uvicorn.Server:
    """The HTTP server of a service; ``serve`` handles its signals. It shares the files with the other ports of its process."""
    import uvicorn

    from tarry.programs.service.protocol import HTTPProtocol
    from tarry.programs.service.tls_handshake import TlsHandshake
    from tarry.programs.serving.connection_limits import IDLE_S, FileShares, PortLimits

    class SignalFreeServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    limits = PortLimits(files or FileShares(), app.authorizer.knows_token, app.authorizer.refusal_of)
    protocol = partial(HTTPProtocol, limits=limits)
    config = uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]  # a class of its own
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=round(GRACE_S),
        timeout_keep_alive=IDLE_S,
        proxy_headers=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as fault:
        raise BadInput(_tls_error(tls, fault)) from None
    if config.ssl is not None:  # it begins on plain connections
        config.http_protocol_class = partial(TlsHandshake, protocol, config.ssl, limits)  # type: ignore[assignment]
        config.ssl = None
    return SignalFreeServer(config)


def _tls_error(tls: TlsFiles | None, fault: OSError) -> str:
    """The error message: which of the two files cannot be used, and why."""
    for what, path in (("certificate", tls.certificate), ("key", tls.key)) if tls else ():
        try:
            if path is not None:
                Path(path).open("rb").close()
        except OSError as refused:
            return f"{what}: {path}: {refused.strerror}."
    return f"certificate: {tls.certificate if tls else ''} and its key cannot be used: {fault}."


async def serve(
    app: ServiceApp, listener: socket.socket, server: uvicorn.Server, *, parent: socket.socket | None = None
) -> None:
    """Serves until a signal, then drains. With a ``parent``, which speaks for all its processes, also until that is gone."""
    from tarry.internal import handle_signals

    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            server.should_exit = server.force_exit = True
        stopping.set()

    restore_signals = handle_signals(stop, stopping.is_set, is_child=parent is not None)
    if parent is not None:
        asyncio.get_running_loop().add_reader(parent, stopping.set)
    if app.moved_queues:
        await app.clients[app.settings.namespaces[0]].keep_moving(*app.moved_queues)
    app.show_pages()
    looking = asyncio.ensure_future(supervise_task("tarry servers", partial(app.metrics.keep_looking, app.clients)))
    _freeze_gc()
    try:
        running = asyncio.ensure_future(server.serve([listener]))
        stop_wait = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, stop_wait}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            if parent is None:
                write_line("tarry: draining.")
            else:
                asyncio.get_running_loop().remove_reader(parent)
            app.drain()
            await asyncio.wait({running}, timeout=app.settings.drain_s)
            server.should_exit = True
        stop_wait.cancel()
        await running
    finally:
        restore_signals()
        looking.cancel()
        await app.close()


def _freeze_gc() -> None:
    """Excludes the loaded modules from garbage collection: scanning them again and again took a seventh of each response."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


async def check_tokens(app: ServiceApp, *, without: bool) -> bool:
    """Whether requests need a token. Raises ``ServerUnfit`` if they must and no token exists."""
    if without:
        return False
    found = [await perform(client, NamespaceVerbs(namespace).list_tokens()) for namespace, client in app.clients]
    if any(listed for _, listed in found):
        return True
    if not app.settings.on_loopback:
        names = ", ".join(app.clients.namespaces)
        raise ServerUnfit(WITHOUT_TOKENS.format(host=app.settings.host, namespaces=names))
    return False
