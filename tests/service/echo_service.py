"""The service's HTTP server with an application that answers each request with itself, and notes it; and the proxies before it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

import servers
from tarry.programs.service import http_server
from tarry.programs.serving.listener import open_listener
from until import LONGEST_S, until

HAPROXY = """
global
  maxconn 100
defaults
  mode http
  timeout connect 30s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 60s
  http-reuse always
frontend all
  bind 127.0.0.1:{port}
  http-request deny deny_status 403 if {{ path_beg /v1 }}
  default_backend service
backend service
  server service 127.0.0.1:{to} maxconn 1 pool-max-conn 1
"""
"""It keeps its one connection to the service, streams bodies, and forbids /v1 to everybody."""
NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream service {{ server 127.0.0.1:{to}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; }}
  }}
}}
"""
"""It keeps a connection to the service, and streams bodies."""


class Echo:
    """An ASGI application. It answers ``…/early`` before the body, and anything else with its path and its body."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, bytes]] = []
        self.by_client: dict[tuple[str, int], list[tuple[str, str, bytes]]] = {}
        """The same of each connection, by the client's address and port; a connection that was reset has none."""
        self.authorizer = SimpleNamespace(knows_token=lambda *_: False, refusal_of=lambda *_: None)
        """Nobody has a token, as at a service that needs none."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", not scope["path"].endswith("/early")
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = body + message["body"], message["more_body"]
        request = (scope["method"], scope["path"], body)
        self.got.append(request)
        self.by_client.setdefault(tuple(scope["client"] or ("", 0)), []).append(request)
        answer = json.dumps([scope["path"], body.decode("latin-1")]).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


LOOPS: dict[str, Any] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
"""`tarry serve` uses uvloop where it is installed."""


@contextmanager
def echo_service(loop: str) -> Iterator[tuple[int, Echo]]:
    """The service's server with that application, in a thread. Answers its port."""
    app: Any = Echo()
    with open_listener("127.0.0.1", 0) as listener:
        server = http_server.make_server(app)

        def serve() -> None:
            with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
                runner.run(server.serve([listener]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        until(lambda: server.started, "the service runs")
        try:
            yield listener.getsockname()[1], app
        finally:
            server.should_exit = server.force_exit = True
            thread.join(LONGEST_S)
            assert not thread.is_alive()


@contextmanager
def proxy(kind: str, folder: Path, to: int) -> Iterator[int]:
    """HAProxy or nginx before a service. Answers its port."""
    program = shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"needs {kind} (apt install {kind})")
    [port] = servers.free_ports(1)
    settings = folder / f"{port}.cfg"
    settings.write_text({"haproxy": HAPROXY, "nginx": NGINX}[kind].format(port=port, to=to, folder=folder))
    words = {"haproxy": ["-db", "-f", settings], "nginx": ["-p", folder, "-c", settings]}[kind]
    process = subprocess.Popen([program, *words], stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(port), f"{kind} runs")
        yield port
    finally:
        process.terminate()
        process.wait()


def accepts(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def statuses(answered: bytes) -> tuple[int, ...]:
    return tuple(map(int, re.findall(rb"HTTP/1\.[01] (\d+) ", answered)))


def echoes(answered: bytes) -> list[list[str]]:
    """The path and the body of each request that was answered by itself."""
    return [json.loads(each) for each in re.findall(rb'\["[^\]]*"\]', answered)]
