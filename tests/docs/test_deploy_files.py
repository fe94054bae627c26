"""The files of examples/deploy do what docs/production/containers.md says: their commands start, are ready, and stop in time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import servers
import tarry
from doc_pages import ROOT
from tarry.programs.service.routes import routes_of
from tarry.programs.service.settings import ServiceSettings
from tarry.values.durations import SECOND, duration_us
from tarry.worker.parent import KILL_MARGIN_S
from until import until
from warm import WarmTarry

DEPLOY = ROOT / "examples" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
MANIFESTS = [one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if one]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
WORKER_GRACE_S = 10
"""Worker(grace=…), where nothing else is given."""


def pod(name: str) -> dict[str, Any]:
    [found] = [one for one in MANIFESTS if one["kind"] == "Deployment" and one["metadata"]["name"] == name]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


SERVICE, WORKER = pod("tarry-service"), pod("shop-worker")
SERVE = {
    "container": json.loads(re.findall(r"^CMD (.*)$", CONTAINERFILE, re.M)[-1]),
    "compose": COMPOSE["service"]["command"],
    "kubernetes": SERVICE["containers"][0]["args"],
}
WORK = {"compose": COMPOSE["worker"]["command"], "kubernetes": WORKER["containers"][0]["args"]}


Start = Callable[[list[str]], subprocess.Popen[bytes]]


@pytest.fixture
def start(tarry_command: WarmTarry, valkey_url: str, tmp_path: Path) -> Start:
    def with_words(words: list[str]) -> subprocess.Popen[bytes]:
        env = {"TARRY_URL": valkey_url, "TARRY_EMBEDDED": "no", "TARRY_NAMESPACE": f"d{os.getpid()}"}
        env["PATH"] = os.environ["PATH"]
        return subprocess.Popen([tarry_command.command, *words], cwd=tmp_path, env=env, stderr=subprocess.PIPE)

    return with_words


@pytest.mark.slow
@pytest.mark.parametrize("place", SERVE)
def test_the_service_starts_is_ready_and_drains(start: Start, place: str) -> None:
    port = str(servers.free_ports(1)[0])
    words = [word.replace("0.0.0.0", "127.0.0.1") for word in SERVE[place]]
    words = [*words, "--port", port, *(["--drain", "1s"] if "--drain" in words else [])]

    def ready() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    with start(words) as service:
        until(ready, "the service is ready")
        service.send_signal(signal.SIGTERM)
        _, log = service.communicate()
    assert service.returncode == 0, log


@pytest.mark.slow
@pytest.mark.parametrize("place", WORK)
def test_the_worker_starts_and_stops(start: Start, valkey_url: str, tmp_path: Path, place: str) -> None:
    (tmp_path / "shop.py").write_text((DEPLOY / "shop.py").read_text())
    with (
        tarry.Client(valkey_url, namespace=f"d{os.getpid()}") as client,
        start(WORK[place]) as worker,
    ):
        until(lambda: len(client.workers()) == (2 if "--processes" in WORK[place] else 1), "the worker works")
        worker.send_signal(signal.SIGTERM)
        _, log = worker.communicate()
    assert worker.returncode == 0, log


def test_the_image_has_no_shell_no_root_and_a_probe_that_the_service_answers() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"^(USER|ENTRYPOINT) (.*)$", last, re.M) == [("USER", "10001:10001"), ("ENTRYPOINT", '["tarry"]')]
    [probe] = re.findall(r"CMD (\[.*urlopen.*)", last)
    assert json.loads(probe)[:2] == ["python", "-c"]
    assert "/readyz" in probe
    compile(json.loads(probe)[2], "probe", "exec")


def test_compose_gives_tarry_no_rights() -> None:
    for name in ("service", "worker"):
        one = COMPOSE[name]
        assert (one["read_only"], one["cap_drop"], one["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
        assert "0.0.0.0" not in str(one.get("ports", ""))


def test_compose_answers_its_own_prometheus_and_no_web_page() -> None:
    """A page's own name may resolve to the published port."""
    command = SERVE["compose"]
    assert command[command.index("--allow-host") + 1] == "service"
    [scraped] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["service:7070"]}]
    assert all(port.startswith("127.0.0.1:") for one in COMPOSE.values() for port in one.get("ports", ()))


def test_a_password_is_in_no_command_and_in_no_pods_record() -> None:
    page = (ROOT / "docs/production/containers.md").read_text()
    commands = [
        line.partition("   #")[0]
        for block in re.findall(r"```console\n(.*?)```", page, re.S)
        for line in block.splitlines()
    ]
    text = "\n".join(commands) + (DEPLOY / "kubernetes.yaml").read_text()
    assert "secretKeyRef" in text
    for word in ("password", "--env ", "--env=", "--from-literal"):
        assert word not in text


def test_nobody_is_killed_before_the_grace_is_over() -> None:
    needed = (WORKER_GRACE_S + 2 * KILL_MARGIN_S) * SECOND
    assert duration_us(COMPOSE["worker"]["stop_grace_period"]) >= needed
    assert WORKER["terminationGracePeriodSeconds"] * SECOND >= needed
    drain = SERVE["kubernetes"][SERVE["kubernetes"].index("--drain") + 1]
    assert SERVICE["terminationGracePeriodSeconds"] * SECOND > 2 * duration_us(drain)


def test_probes_ask_for_routes_that_are_there_at_the_port_that_is_open() -> None:
    paths = {route.path for route in routes_of()}
    [container] = SERVICE["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": ServiceSettings().port}]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in paths
        assert container[probe]["httpGet"]["port"] == "http"
    assert f":{ServiceSettings().port}/readyz" in CONTAINERFILE
    assert f"EXPOSE {ServiceSettings().port}\n" in CONTAINERFILE


def test_the_image_installs_what_is_there_for_a_python_that_is_supported() -> None:
    assert set(re.findall(r"tarry\[([\w,]+)\]", CONTAINERFILE)) == set(re.findall(r"'\.\[([\w,]+)\]'", CONTAINERFILE))
    for extras in re.findall(r"\[([a-z]+,[a-z,]+)\]", CONTAINERFILE):
        assert set(extras.split(",")) <= set(metadata("tarry").get_all("Provides-Extra", []))
    [version] = set(re.findall(r"^FROM python:([\d.]+)-slim", CONTAINERFILE, re.M))
    assert f"Programming Language :: Python :: {version}" in (ROOT / "pyproject.toml").read_text()


def test_the_servers_keep_every_job() -> None:
    said = " ".join(COMPOSE["valkey"]["command"])
    assert "--appendonly yes" in said
    assert "--maxmemory-policy noeviction" in said
