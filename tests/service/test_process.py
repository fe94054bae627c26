"""``tarry serve`` as a process: ready in seconds, drained by SIGTERM, quiet about bodies."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

import tarry
from connections.roles import rules
from connections.test_acl import user
from tarry.connections.embedded import plain_client
from tarry.core.requests import Command
from tarry.programs.dialects.mounts import ALL_DIALECTS, DIALECTS
from tarry.programs.service import openapi
from tarry.programs.service.routes import routes_of
from tarry.programs.serving.mounts import Mount
from tarry.programs.sqs import routes as sqs
from tarry.verbs import tokens
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = pytest.mark.slow

Start = Callable[..., "Process"]
SECRET = "a secret that nobody may log"


class Process:
    """A service of its own."""

    def __init__(self, url: str, log: Path, words: tuple[str, ...], files: int | None, warm: WarmTarry) -> None:
        self.log = log
        environment = {"TARRY_URL": url, "TARRY_LOG": "DEBUG", "PYTHONUNBUFFERED": "1"}
        if files is not None:
            environment["OPEN_FILES"] = str(files)
        with log.open("wb") as out:
            self.child = warm.start(["serve", "--port", "0", *words], out, environment, Path.cwd())

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        until(lambda: re.search(r"service at (\S+)\n", self.output) or self.child.poll() is not None)
        found = re.search(r"service at (\S+)\n", self.output)
        assert found, self.output
        return found[1]

    def ended(self) -> int | None:
        return self.child.wait(LONGEST_S)

    def stop(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


@contextmanager
def process(url: str, folder: Path, *words: str, warm: WarmTarry, files: int | None = None) -> Iterator[Process]:
    made = Process(url, folder / f"log-{'-'.join(words)}"[:80].replace("/", "_"), words, files, warm)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def start(valkey_url: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda *words, url=valkey_url, **more: stack.enter_context(
            process(url, tmp_path, *words, warm=tarry_command, **more)
        )


def test_sigterm_answers_waiting_requests_and_refuses_new_ones(start: Start) -> None:
    running = start("--drain", "1s", "--namespace", "process")
    base, answers = running.url, list[httpx.Response]()
    http = httpx.Client(base_url=base, timeout=LONGEST_S)
    assert http.get("/readyz").json()["status"] == "ok"
    http.post("/v1/topics/orders/jobs", json={"body": SECRET, "delay": "1h"}).raise_for_status()
    http.post(
        "/v1/topics/orders/jobs", content=SECRET.encode(), headers={"content-type": "text/plain"}
    ).raise_for_status()
    http.post(
        "/v1/topics/orders/jobs",
        content=f'{{"body": "{SECRET}", "delay": "x"}}',
        headers={"content-type": "application/json"},
    )

    def wait() -> None:
        answers.append(httpx.post(f"{base}/v1/topics/tea/pop", json={"wait": 60}, timeout=LONGEST_S))

    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    until(lambda: "tarry_http_requests_held 3.0" in http.get("/metrics").text)
    running.child.send_signal(signal.SIGTERM)
    for waiter in waiters:
        waiter.join(LONGEST_S)
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "draining")] * 3
    assert all(answer.headers["retry-after"] == "1" for answer in answers)
    refused = httpx.post(f"{base}/v1/topics/orders/pop", json={})
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "draining", "1")
    assert httpx.get(f"{base}/readyz").status_code == 503
    assert httpx.get(f"{base}/healthz").status_code == 200
    assert running.ended() == 0
    assert "draining" in running.output
    assert SECRET not in running.output
    http.close()


def test_a_service_can_serve_several_namespaces(start: Start) -> None:
    running = start(
        "--namespace", "process-one", "--other-namespace", "process-two", "--other-namespace", "process-one"
    )
    with tarry.HTTPClient(running.url) as first, tarry.HTTPClient(running.url, namespace="process-two") as second:
        first.topic("orders").add(1, id="7")
        second.topic("orders").add(2, id="7")
        assert (first.topic("orders").get("7").body, second.topic("orders").get("7").body) == (1, 2)  # type: ignore[union-attr]
        assert first.topics() == second.topics() == ["orders"]
    with tarry.HTTPClient(running.url, namespace="process-three") as third, pytest.raises(tarry.NotAllowed):
        third.topics()
    metrics = httpx.get(f"{running.url}/metrics").text
    assert all(f'namespace="process-{which}"' in metrics for which in ("one", "two"))


@pytest.mark.parametrize(
    ("options", "mounts"),
    [
        ((), ()),
        (
            tuple(word for name in (*DIALECTS, "sqs") for word in ("--dialect", name)),
            (*ALL_DIALECTS.mounts("default"), Mount((sqs.routes_of(),))),
        ),
    ],
    ids=["alone", "dialects"],
)
def test_the_documented_routes_are_served(start: Start, options: tuple[str, ...], mounts: tuple[Mount, ...]) -> None:
    running = start(*options)
    assert httpx.get(f"{running.url}/openapi.json").content == openapi.encoded(routes_of(mounts))
    assert re.findall(r"^  dialect  (.*)$", running.output, re.MULTILINE) == (
        [
            "delay-controller: /delay/add /delay/pop /delay/finish /delay/delete; stores in the namespace delay",
            "delay-queue: /push /pop /finish /delete /get; stores in the namespace delay-queue",
            "delayed-message: /delayed/message; stores in the queue DelayMessage",
            f"sqs: /sqs; stores in NAMESPACE of queue URLs, {running.url}/sqs/NAMESPACE/QUEUE",
        ]
        if options
        else []
    )


def test_a_running_service_requires_tokens_once_the_first_exists(start: Start, valkey_url: str) -> None:
    """Its dashboard, too; one that was told never to ask does not."""
    named = ("--namespace", "process-asking")
    running, open_to_all = start(*named), start(*named, "--without-tokens")
    pages = "/v1/topics", "/metrics", "/healthz", "/"
    with ExitStack() as stack:
        one, other = (stack.enter_context(httpx.Client(base_url=at.url)) for at in (running, open_to_all))
        assert [one.get(page).status_code for page in pages] == [200, 200, 200, 200]
        assert "not required until the first one is created" in running.output
        client = stack.enter_context(tarry.Client(valkey_url))
        text, id, record = tokens.create_token(os.urandom, ("view",))
        client.engine.run(tokens.store_token("process-asking", id, record))
        stack.callback(lambda: client.engine.run(tokens.delete_token("process-asking", id)))
        until(lambda: one.get("/v1/topics").status_code == 401)
        assert [one.get(page).status_code for page in pages] == [401, 401, 200, 303]
        assert one.get("/v1/topics", headers={"authorization": f"Bearer {text}"}).status_code == 200
        assert [other.get(page).status_code for page in pages] == [200, 200, 200, 200]
        assert "The first token was created" in running.output
        client.engine.run(tokens.delete_token("process-asking", id))
        until(lambda: one.get("/v1/topics", headers={"authorization": f"Bearer {text}"}).status_code == 401)
        assert one.get("/v1/topics").status_code == 401


NAMESPACES = tuple(name for mount in ALL_DIALECTS.mounts("default") for name in mount.namespaces)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--dialect", "delay-controller", "--dialect", "delay-queue", "--dialect", "delayed-message=shop-messages"),
    ],
)
def test_a_service_runs_under_the_documented_acl_rules(
    start: Start, request: pytest.FixtureRequest, options: tuple[str, ...]
) -> None:
    """As docs/how-to/secure-the-server.md says."""
    with user("valkey", request, "shop-serving", *rules("all", "shop-serving", "shop-", also=NAMESPACES)) as url:
        running = start("--namespace", "shop-serving", *options, url=url)
        with httpx.Client(base_url=running.url) as http:
            assert [http.get(page).status_code for page in ("/readyz", "/", "/metrics")] == [200, 200, 200]
            queues = 'tarry_delayed_queue_waiting{queue="shop-messages"' in http.get("/metrics").text
        running.child.terminate()
        assert running.ended() == 0
    assert queues is bool(options)
    assert "permission" not in running.output


def test_a_forbidden_queue_removes_no_other_metric(
    start: Start, request: pytest.FixtureRequest, valkey_url: str
) -> None:
    with user("valkey", request, "shop-others", *rules("all", "shop-others", "shop-", also=NAMESPACES)) as url:
        running = start(
            "--namespace", "shop-others", "--delayed-queue", "shop-mine", "--dialect", "delayed-message", url=url
        )
        with httpx.Client(base_url=running.url) as http:
            until(lambda: "DelayMessage could not be moved" in running.output)
            for _ in range(3):
                answer = http.get("/metrics")
                assert answer.status_code == 200
                assert "tarry_http_request_seconds" in answer.text
                assert 'queue="shop-mine"' in answer.text
                assert "DelayMessage" not in answer.text
            time.sleep(0.5)  # longer than the first repeats
        assert running.output.count("DelayMessage could not be moved") == 1
        plain_client.call_once(
            valkey_url.removeprefix("unix://"), "ACL", "SETUSER", "shop-others", "allkeys", "allchannels"
        )
        until(lambda: "DelayMessage is moved again" in running.output)
        assert running.output.count("DelayMessage could not be moved") == 1
        assert running.output.count("The queue DelayMessage is left out of the metrics: ") == 1


def test_a_service_serves_tls(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    running = start("--namespace", "over-tls", "--certificate", str(certificate), "--key", str(key))
    assert running.url.startswith("https://")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with httpx.Client(verify=context, base_url=running.url) as http:
        assert http.get("/readyz").json()["status"] == "ok"
    with tarry.HTTPClient(running.url, patience=0.2) as stranger, pytest.raises(tarry.Unavailable, match="certificate"):
        stranger.topics()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with tarry.HTTPClient(running.url, namespace="over-tls") as client:
        assert client.topics() == []


def test_a_second_signal_ends_the_service_at_once(start: Start) -> None:
    running = start("--drain", "60s")
    assert httpx.get(f"{running.url}/readyz").status_code == 200
    running.child.send_signal(signal.SIGINT)
    until(lambda: "draining" in running.output)
    running.child.send_signal(signal.SIGINT)
    assert running.ended() == 0


def test_a_service_can_use_the_embedded_server(start: Start, tmp_path: Path) -> None:
    running = start(url=f"embedded://{tmp_path}/server")
    job = {"body": {"order": 7}, "delay": 0}
    assert httpx.post(f"{running.url}/v1/topics/orders/jobs", json=job).status_code == 201
    popped = httpx.post(f"{running.url}/v1/topics/orders/pop", json={"wait": 5}).json()
    assert popped["body"] == {"order": 7}
    running.child.terminate()
    assert running.ended() == 0


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (("--host", "0.0.0.0"), 3, "no token exists in default"),
        (("--host", "no.such.host.invalid"), 2, "is not an address of this machine"),
        (("--certificate", "/nowhere.pem"), 2, "--certificate: /nowhere.pem: No such file"),
        (("--certificate", __file__, "--key", "/nowhere.key"), 2, "--key: /nowhere.key: No such file"),
        (("--certificate", __file__), 2, f"--certificate: {__file__} and its key cannot be used"),
        (("--key", __file__), 2, "--key: give its certificate"),
        (("--namespace", "a/b"), 2, "namespace"),
        (("--dialect", "delayed-message", "--redisson", "klingon"), 2, "--redisson: 'klingon'"),
        (("--dialect", "delayed-message", "--redisson", "3.11"), 2, "codec"),
        (("--dialect", "gearman"), 2, "--dialect: 'gearman' is unknown; choose from delay-controller, delay-queue"),
    ],
)
def test_invalid_options_are_reported_and_nothing_is_served(
    tarry_command: WarmTarry, valkey_url: str, tmp_path: Path, words: Any, code: int, output: str
) -> None:
    done = tarry_command.run(["serve", "--port", "0", *words], None, {"TARRY_URL": valkey_url}, tmp_path)
    shown = done.stdout + done.stderr
    assert done.returncode == code, shown
    assert output in shown
    assert "Traceback" not in shown
    assert "service at" not in shown


def test_a_queue_of_java_needs_the_version_of_redisson(
    tarry_command: WarmTarry, valkey_url: str, tmp_path: Path
) -> None:
    words = ["serve", "--port", "0", "--dialect", "delayed-message"]
    done = tarry_command.run(words, None, {"TARRY_URL": valkey_url, "TARRY_REDISSON": ""}, tmp_path)
    assert done.returncode == 2
    assert "--redisson: delayed-message needs the version of Redisson in the Java application" in done.stderr


def test_a_port_in_use_is_reported(start: Start) -> None:
    port = start().url.rpartition(":")[2]
    other = start("--port", port)
    assert other.ended() == 2
    assert "cannot be opened" in other.output


@pytest.mark.slow
def test_a_missing_server_is_reported(start: Start) -> None:
    running = start(url="redis://127.0.0.1:1?socket_timeout=0.2")
    assert running.ended() == 3
    assert "did not answer" in running.output


def test_a_missing_extra_is_reported_with_the_install_command(tmp_path: Path) -> None:
    script = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['tarry', 'serve']; from tarry.programs.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 3
    assert "pip install 'tarry[http]'" in done.stderr


def test_a_service_moves_the_configured_queues(start: Start, valkey_url: str) -> None:
    """Nobody consumes them with tarry: a Java application reads the list."""
    name = f"moved-{os.getpid()}"
    running = start("--delayed-queue", name, "--dialect", "delayed-message")
    with tarry.Client(valkey_url) as client:
        assert running.url
        client.delayed_queue(name, codec="string").offer("tea", "200ms")
        until(lambda: client.engine.run(Command((b"LLEN", name.encode()), int)) == 1)
        text = httpx.get(f"{running.url}/metrics").text
        assert f'tarry_delayed_queue_ready{{queue="{name}"}} 1.0' in text
        assert f'tarry_delayed_queue_movers{{queue="{name}"}} 1.0' in text
        assert 'tarry_delayed_queue_waiting{queue="DelayMessage"}' in text, "the queue of the dialect is moved, too"
        client.engine.run(Command((b"DEL", name.encode()), int))
