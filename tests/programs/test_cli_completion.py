"""Completion in a shell, asked as the shell asks."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tarry
from tarry.connections.embedded import shared_server
from until import LONGEST_S, until
from warm import WarmTarry

pytestmark = pytest.mark.slow

Offered = Callable[..., list[str]]


@pytest.fixture
def offered(valkey_url: str, namespace: str, tarry_command: WarmTarry) -> Offered:
    """The words offered for the last one of a line."""

    def complete_line(line: str, url: str = valkey_url) -> list[str]:
        here = {
            "TARRY_URL": url,
            "TARRY_NAMESPACE": namespace,
            "_TARRY_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        done = subprocess.run(
            [tarry_command.command],
            env={**os.environ, **here},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return complete_line


def test_topic_names_are_completed(client: tarry.Client, offered: Offered, valkey_url: str, namespace: str) -> None:
    for name in ("orders", "order/late", "测试", "two words"):
        client.topic(name).add(1)
    everything = ["order/late", "orders", "测试"]
    until(lambda: offered("tarry stats ") == everything, "a second is enough for the server's answer")
    until(lambda: offered("tarry list or") == ["order/late", "orders"], "those that begin so")
    until(lambda: offered("tarry check orders or") == ["order/late"], "those not on the line")
    assert offered("tarry stats --namespace other ") == []
    elsewhere = f"tarry --namespace {namespace} --url {valkey_url} add o"
    until(
        lambda: offered(elsewhere, url="redis://127.0.0.1:1") == ["order/late", "orders"], "by options before the verb"
    )


def test_the_values_of_an_option_are_completed(offered: Offered) -> None:
    assert offered("tarry list orders --state d") == ["delayed", "dead"]
    assert offered("tarry purge orders --state re") == ["ready", "reserved", "retrying"]
    assert offered("tarry kick orders --a") == ["--all"]
    assert offered("tarry add orders 1 --if-exists k") == ["keep"]
    assert "release-holder" in offered("tarry rel")


def test_a_silent_server_completes_nothing(offered: Offered) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert offered("tarry stats ", url=f"redis://127.0.0.1:{port}?socket_timeout=3600") == []
    assert offered("tarry stats ", url=f"redis://127.0.0.1:{port}") == []
    assert offered("tarry stats ", url="what is this") == []


def test_completion_starts_no_embedded_server(offered: Offered, tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}/server"
    assert offered("tarry stats ", url=url) == []
    assert not (tmp_path / "server").exists()
    with shared_server.join_server(tmp_path / "server", linger_s=0):
        with tarry.Client(url, namespace=os.environ.get("TARRY_NAMESPACE", "default")) as client:
            client.topic("orders").add(1)
        until(lambda: offered("tarry stats --namespace default ", url=url) == ["orders"], "it runs now")
