"""``tarry serve``: topics and jobs over HTTP."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarry.errors import BadInput
from tarry.internal import address_of, server_verbs
from tarry.programs.cli.commands import Redisson, verb
from tarry.programs.cli.messages import renamed_parameters
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.programs.cli.composition import Composition
    from tarry.programs.service.http_server import TlsFiles
    from tarry.programs.service.settings import ServiceSettings
    from tarry.programs.serving.namespace_clients import OpenClient


ROOT_PATH = re.compile(r"(/[\w.~-]+)+/?|/", re.ASCII)


@verb()
def serve(
    session: CommandSession,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; 0: any free one.")
    ] = 7070,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on. Any other than loopback needs tokens.")
    ] = "127.0.0.1",
    other_namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--other-namespace",
            metavar="NAME",
            help="One more namespace to serve; may be repeated.",
            show_default=False,
        ),
    ] = None,
    without_tokens: Annotated[
        bool,
        typer.Option(
            "--without-tokens", help="Never require tokens: every client that reaches the port may do anything."
        ),
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS: a file with the certificate, PEM.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS: a file with its key, PEM.", show_default=False)
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Behind a proxy, the path of this service at its host, such as /tarry.",
            show_default=False,
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Answer without tokens under this host name, too; may be repeated. Always: localhost and addresses.",
            show_default=False,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="Let web pages of this origin call the API, such as https://app.example; may be repeated.",
            show_default=False,
        ),
    ] = None,
    max_request_body: Annotated[
        int, typer.Option(metavar="N", min=1024, help="The maximum size of a request's body, in bytes.")
    ] = 8 << 20,
    processes: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=256, help="How many processes share the port; one that dies is replaced."),
    ] = 1,
    drain: Annotated[
        str, typer.Option(metavar="DURATION", help="How long SIGTERM keeps the port open, answering 503.")
    ] = "1s",
    map_cache: Annotated[
        list[str] | None,
        typer.Option(
            "--map-cache",
            metavar="MAP",
            help="A map shared with Java for the metrics; may be repeated.",
            show_default=False,
        ),
    ] = None,
    lock: Annotated[
        list[str] | None,
        typer.Option(
            "--lock",
            metavar="LOCK",
            help="A lock of the namespace for the metrics; may be repeated.",
            show_default=False,
        ),
    ] = None,
    shared_lock: Annotated[
        list[str] | None,
        typer.Option(
            "--shared-lock",
            metavar="LOCK",
            help="A lock shared with Java for the metrics; may be repeated.",
            show_default=False,
        ),
    ] = None,
    delayed_queue: Annotated[
        list[str] | None,
        typer.Option(
            "--delayed-queue",
            metavar="QUEUE",
            help="A queue shared with Java that this service moves; may be repeated.",
            show_default=False,
        ),
    ] = None,
    redisson: Redisson = None,
    beanstalk: Annotated[
        str | None,
        typer.Option(
            "--beanstalk",
            metavar="HOST:PORT",
            help="Listen for beanstalkd's clients, too, such as at 127.0.0.1:11300.",
            show_default=False,
        ),
    ] = None,
    beanstalk_namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The namespace of beanstalkd's clients, which then need no token. Default: as for HTTP.",
            show_default=False,
        ),
    ] = None,
    beanstalk_job_size: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1 << 20, help="The maximum size of a job that beanstalkd's clients put, in bytes."
        ),
    ] = 65_535,
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard",
            help="Serve the dashboard at /. Default: yes, unless there are several processes.",
            show_default=False,
        ),
    ] = None,
    dialect: Annotated[
        list[str] | None,
        typer.Option(
            "--dialect",
            metavar="NAME[=PLACE]",
            help="Speak another system's API, too: delay-controller, delay-queue, delayed-message or sqs; may be repeated. PLACE: the namespace (for delayed-message the queue) that it stores in.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serves topics and jobs over HTTP, with metrics, until SIGTERM. Needs tarry[cli,http]."""
    from tarry.internal import SECOND, NamespaceVerbs, duration_us, run_in_loop
    from tarry.programs.service import http_server
    from tarry.programs.service.settings import ServiceSettings
    from tarry.programs.serving.web_pages import checked_hosts, checked_origins

    for one in other_namespace or ():
        with renamed_parameters(namespace="other_namespace"):
            NamespaceVerbs(one)
    http_server.require_extra()
    from tarry import AsyncClient
    from tarry.programs.cli.composition import SQS, Composition, dialects_of
    from tarry.programs.dialects.mounts import DIALECTS, Dialects

    if processes > 1 and (dashboard or beanstalk is not None):
        raise BadInput(
            "processes: the dashboard and beanstalkd's clients need a service of one process; start one beside this."
        )
    dashboard = processes == 1 if dashboard is None else dashboard
    places = dialects_of(dialect or ())
    spoken_dialects = Dialects(*(places.get(name) for name in DIALECTS))
    if spoken_dialects.delayed_message is not None and not (redisson or os.environ.get("TARRY_REDISSON")):
        raise BadInput(
            "redisson: delayed-message needs the version of Redisson in the Java application: --redisson 3.15.1, or TARRY_REDISSON."
        )
    settings = ServiceSettings(
        host=host,
        port=port,
        namespaces=tuple(
            dict.fromkeys(
                (session.namespace, *(other_namespace or ()), *([beanstalk_namespace] if beanstalk_namespace else ()))
            )
        ),
        max_request_body=max_request_body,
        allowed_hosts=checked_hosts(allow_host or ()),
        allowed_origins=checked_origins(allow_origin or ()),
        root_path=_checked_root(root_path),
        map_caches=tuple(dict.fromkeys(map_cache or ())),
        locks=tuple(dict.fromkeys(lock or ())),
        shared_locks=tuple(dict.fromkeys(shared_lock or ())),
        queues=tuple(dict.fromkeys(delayed_queue or ())),
        redisson=redisson,
        drain_s=duration_us(drain, "drain") / SECOND,
    )
    if key is not None and certificate is None:
        raise BadInput("key: give its certificate, too, with --certificate.")
    tls = http_server.TlsFiles(str(certificate), str(key) if key else None) if certificate else None
    spoken = None
    if beanstalk is not None:
        from tarry.programs.beanstalk.server import BeanstalkSettings, endpoint_of

        spoken = BeanstalkSettings(*endpoint_of(beanstalk), beanstalk_namespace, beanstalk_job_size)
    _show_logs("json" if session.json else "text")
    composition = Composition(spoken_dialects, sqs=SQS in places, dashboard=dashboard, beanstalk=spoken)

    def open_client(namespace: str) -> AsyncClient:
        return AsyncClient(session.url, namespace=namespace, redisson=redisson)

    run_in_loop(_serve(open_client, settings, composition, tls, processes, without_tokens=without_tokens))


def _checked_root(path: str) -> str:
    """The path without a slash at its end. Raises ``BadInput``."""
    if path and not ROOT_PATH.fullmatch(path):
        raise BadInput(
            f"root_path: {path!r}; write a path such as /tarry: letters, digits, and - . _ ~ between slashes."
        )
    return path.rstrip("/")


def _show_logs(format: str) -> None:
    """Sends the dashboard's audit log to stderr, and all other log lines from warnings on."""
    from tarry.internal import log_formatter
    from tarry.programs.serving.stderr import STDERR, LogHandler

    handler = LogHandler(STDERR)
    handler.setFormatter(log_formatter(format))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("tarry.audit").setLevel(logging.INFO)


async def _serve(
    open_client: OpenClient,
    settings: ServiceSettings,
    composition: Composition,
    tls: TlsFiles | None,
    processes: int,
    *,
    without_tokens: bool,
) -> None:
    from tarry.programs.service import http_server
    from tarry.programs.service.app import ServiceApp
    from tarry.programs.serving.listener import open_listener
    from tarry.programs.serving.processes import ServiceProcesses, inherited
    from tarry.programs.serving.stderr import STDERR, write_line

    app = ServiceApp(settings, open_client, composition.mounts(settings.namespaces[0]))
    try:
        if (queue := composition.dialects.delayed_message) is not None:
            # raises if tarry does not speak the codec of this version
            server_verbs(app.clients[settings.namespaces[0]].delayed_queue(queue)).context.require_codec()
        server = http_server.make_server(app, tls=tls, files=app.files)  # first: it raises for bad files
        opened, parent = inherited() or (open_listener(settings.host, settings.port), None)
        with opened as listener:
            app.require_tokens(await http_server.check_tokens(app, without=without_tokens), later=not without_tokens)
            if parent is not None:
                return await http_server.serve(app, listener, server, parent=parent)
            host, port = listener.getsockname()[:2]
            handle = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}{settings.root_path}"
            shown = address_of(app.clients[settings.namespaces[0]]).redacted
            if composition.beanstalk is not None:
                from tarry.programs.beanstalk import server as beanstalk

                write_line(await beanstalk.start(app, composition.beanstalk, without_tokens=without_tokens))
            write_line(composition.banner(app, shown, handle, processes))
            if processes == 1:
                return await http_server.serve(app, listener, server)
            await app.close()
            command = [sys.executable, "-P", "-m", "tarry", *sys.argv[1:]]  # no module of the current folder
            await ServiceProcesses(command, processes, listener, settings.drain_s).run()
    finally:
        await app.close()
        STDERR.flush()
