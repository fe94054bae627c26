"""A process of the service, as ``tarry serve`` runs it: uvicorn, signals, what it says.

SIGTERM, Ctrl-C ─▶ drain: who waits is answered, new requests get 503 ─▶ the port closes ─▶ what runs ends ─▶ exit 0
once more       ─▶ at once
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import socket
import ssl
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarry import __version__
from tarry.errors import BadInput, ServerUnfit

if TYPE_CHECKING:
    import uvicorn

    from tarry.programs.service.app import ServiceApp
    from tarry.programs.service.settings import ServiceSettings

MISSING_EXTRA = "The service needs more than the library: pip install 'tarry[http]'."
KEPT_S = 75
"""How long a connection is kept between two requests."""
SPARE_FILES = 128
"""So many are kept for connections to servers, and for what is accepted before it is counted; at most a quarter."""
GRACE_S = 10.0
"""How long requests may still run when the port is closed."""
GC_THRESHOLD = 10_000
"""So many new objects before the collector looks for dead circles among them; 64 requests at once have some thousand."""
WITHOUT_TOKENS = (
    "{host} can be reached from other machines, and no token exists in {namespaces}: anybody could read, add and delete "
    "jobs. Make one (tarry token create --scope produce --scope consume), or say --without-tokens."
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of a certificate and its key, as PEM."""

    certificate: str
    key: str | None = None


def require_extra() -> None:
    """Raises ``ServerUnfit`` where the extra is not installed."""
    try:
        import prometheus_client
        import uvicorn
    except ImportError:
        raise ServerUnfit(MISSING_EXTRA) from None
    del prometheus_client, uvicorn


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ``BadInput`` in words."""
    try:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
    except OSError as fault:
        raise BadInput(f"host: {host!r} is no address of this machine: {fault}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except OSError as fault:
        listener.close()
        raise BadInput(f"port: {port} on {host} cannot be had: {fault.strerror}. Name another with --port.") from None
    return listener


def make_server(app: ServiceApp, *, tls: TlsFiles | None = None) -> uvicorn.Server:
    """The HTTP server around a service. Its signals are ours."""
    import uvicorn

    class SignalFreeServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    config = uvicorn.Config(
        app,
        http=_protocol(),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=round(GRACE_S),
        timeout_keep_alive=KEPT_S,
        proxy_headers=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as fault:
        raise BadInput(_tls_error(tls, fault)) from None
    return SignalFreeServer(config)


def _tls_error(tls: TlsFiles | None, fault: OSError) -> str:
    """Which of the two files cannot be used, and why."""
    for what, path in (("certificate", tls.certificate), ("key", tls.key)) if tls else ():
        try:
            if path is not None:
                Path(path).open("rb").close()
        except OSError as refused:
            return f"{what}: {path}: {refused.strerror}."
    return f"certificate: {tls.certificate if tls else ''} and its key cannot be used: {fault}."


def _protocol() -> Any:
    try:
        from tarry.programs.service.protocol import HTTPProtocol, Surplus
    except ImportError:  # no httptools here: h11, which is slower, and has no limits of time for a head
        return "auto"
    return partial(HTTPProtocol, surplus=Surplus(most_files()))


def most_files() -> float:
    """How many files may be open when another connection is accepted and served."""
    try:
        import resource
    except ImportError:  # Windows, where there is no such limit
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit - min(SPARE_FILES, limit // 4)


async def serve(
    app: ServiceApp, listener: socket.socket, server: uvicorn.Server, *, announce: Callable[[str], None]
) -> None:
    """Serves until a signal, then drains."""
    from tarry.programs.worker.signals import handle_signals

    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            server.should_exit = server.force_exit = True
        stopping.set()

    forget = handle_signals(stop, stopping.is_set)
    if app.settings.moved_queues:
        await app.clients[app.settings.namespaces[0]].keep_moving(*app.settings.moved_queues)
    if app.settings.dashboard:
        app.show_dashboard()
    _freeze_gc()
    try:
        running = asyncio.ensure_future(server.serve([listener]))
        leaving = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            announce("tarry: draining.")
            app.drain()
            await asyncio.wait({running}, timeout=app.settings.drain_s)
            server.should_exit = True
        leaving.cancel()
        await running
    finally:
        forget()
        await app.close()


def _freeze_gc() -> None:
    """What is loaded by now stays: looking through it again and again was a seventh of what an answer costs."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


async def require_tokens(app: ServiceApp, *, without: bool) -> bool:
    """Whether tokens are asked for. Raises ``ServerUnfit`` where they must be and there are none."""
    from tarry.verbs import tokens

    if without:
        return False
    found = [await client.engine.run(tokens.list_tokens(namespace)) for namespace, client in app.clients]
    if any(listed for _, listed in found):
        return True
    if not app.settings.on_loopback:
        names = ", ".join(app.clients.namespaces)
        raise ServerUnfit(WITHOUT_TOKENS.format(host=app.settings.host, namespaces=names))
    return False


def banner(app: ServiceApp, shown: str, address: str) -> str:
    """What a service says when it starts."""
    settings = app.settings
    given = [
        f"tarry {__version__}, service at {address}",
        f"  server   {shown}, namespace {', '.join(settings.namespaces)}",
        f"  tokens   {_listening_options(settings)}",
    ]
    spoken = settings.dialects
    for path, where in (
        ("/delay/…", spoken.delay_controller),
        ("/push /pop …", spoken.delay_queue),
        ("/delayed/message", spoken.delayed_message),
    ):
        if where is not None:
            given.append(f"  dialect  {path} in {where}")
    if settings.moved_queues:
        given.append(f"  moves    {', '.join(settings.moved_queues)}")
    given.append(f"  {address}/ is the dashboard" if settings.dashboard else "  no dashboard")
    given.append(f"  {address}/openapi.json  {address}/metrics; Ctrl-C or SIGTERM drains it")
    return "\n".join(given)


def _listening_options(settings: ServiceSettings) -> str:
    if settings.tokens:
        return "asked for"
    return "not asked for until there is one" if settings.tokens_later else "not asked for"


def announce(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
