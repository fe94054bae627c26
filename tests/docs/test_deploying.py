"""The unit of Deploy a worker is checked by systemd's own tool, the Dockerfile by the rules, and its command runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

import tarry
from doc_pages import ROOT, blocks
from tarry.values.durations import SECOND, duration_us
from tarry.worker.parent import KILL_MARGIN_S
from tarry.worker.parent_messages import BAD_ARGUMENTS
from tarry.worker.signals import RELEASED
from until import until
from warm import WarmTarry

pytestmark = pytest.mark.slow

AT = ROOT / "docs/production/deploy-a-worker.md"
PAGE = AT.read_text(encoding="utf-8")
VENV = Path(sys.executable).parent
MOST_EXPOSED = 20
"""Of 100, as systemd-analyze counts what a service could do if it were taken over."""


def written(name: str) -> str:
    """The file that a block of the page writes."""
    [block] = [block for block in blocks(AT) if block.file == name]
    return block.content


UNIT, DOCKERFILE, REQUIREMENTS, SHOP = map(
    written, ("shop-worker@.service", "Dockerfile", "requirements.txt", "shop.py")
)


def setting(name: str) -> str:
    [value] = re.findall(rf"^{name}=(.*)$", UNIT, re.M)
    return str(value)


class Step(NamedTuple):
    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Of an instruction in brackets."""
        return list(json.loads(self.rest))


STEPS = [Step(*line.split(" ", 1)) for line in DOCKERFILE.splitlines()]


def step(word: str) -> Step:
    [found] = [step for step in STEPS if step.word == word]
    return found


def test_systemd_accepts_the_unit_and_its_security(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd (apt install systemd)")
    unit = tmp_path / "shop-worker@1.service"
    unit.write_text(UNIT.replace("/srv/shop/.venv/bin", str(VENV)))
    for words in (["verify", "--man=no"], ["security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}"]):
        done = subprocess.run(["systemd-analyze", *words, unit], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if words[0] == "verify":
            assert str(unit) not in done.stderr, "a warning"


def test_the_unit_matches_the_settings_of_the_worker() -> None:
    [grace] = re.findall(r'Worker\("shop", grace="(\w+)"\)', SHOP)
    assert duration_us(setting("TimeoutStopSec")) > duration_us(grace) + 2 * KILL_MARGIN_S * SECOND
    assert f"grace period of {grace.removesuffix('s')} s" in UNIT
    assert setting("KillMode") == "mixed"
    assert int(setting("SuccessExitStatus")) == RELEASED
    assert int(setting("RestartPreventExitStatus")) == BAD_ARGUMENTS
    [timeout] = re.findall(r"--stop-timeout (\d+)", PAGE)
    assert timeout == re.findall(r"terminationGracePeriodSeconds: (\d+)", PAGE)[0]
    assert setting("TimeoutStopSec") == f"{timeout}s"


def test_the_dockerfile_is_valid() -> None:
    assert STEPS[0].word == "FROM"
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {step.word for step in STEPS} <= known
    assert step("STOPSIGNAL").rest == "SIGTERM"
    assert step("USER").rest.partition(":")[0] != "0"
    version = step("FROM").rest.removeprefix("python:").removesuffix("-slim")
    assert f"Programming Language :: Python :: {version}" in metadata("tarry").get_all("Classifier", [])


def test_the_requirements_name_existing_extras() -> None:
    assert "-r requirements.txt" in step("RUN").rest
    for line in REQUIREMENTS.splitlines():
        wanted = Requirement(line)
        assert wanted.name == "tarry"
        assert wanted.extras <= set(metadata("tarry").get_all("Provides-Extra", []))


@pytest.mark.parametrize("place", ["systemd", "container"])
def test_the_deployed_command_works_and_stops(
    valkey_url: str, tmp_path: Path, tarry_command: WarmTarry, place: str
) -> None:
    programs = tarry_command.command.parent
    here = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TARRY_URL": valkey_url,
        "TARRY_NAMESPACE": f"{place}-{os.getpid()}",
    }
    if place == "systemd":
        command = shlex.split(setting("ExecStart").replace("/srv/shop/.venv/bin", str(programs)))
        said = setting("Environment")
        (tmp_path / "shop.py").write_text(SHOP)
    else:
        command, said = step("ENTRYPOINT").words + step("CMD").words, step("ENV").rest
        for copied in (step for step in STEPS if step.word == "COPY"):
            name, where = copied.rest.split()
            assert where == "."
            (tmp_path / name).write_text(written(name))
    here |= dict(pair.split("=") for pair in said.split())
    with (
        tarry.Client(valkey_url, namespace=here["TARRY_NAMESPACE"]) as client,
        subprocess.Popen(command, cwd=tmp_path, env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker,
    ):
        until(lambda: len(client.workers()) == 2, "two processes work")
        assert [info.topics[0].handlers for info in client.workers()] == [("close", "receipt")] * 2
        worker.send_signal(signal.SIGTERM)
        _, log = worker.communicate()
        assert worker.returncode == 0, log
        assert client.workers() == []
