"""moto's own tests of SQS, as they are, with the service instead of moto's server: only the endpoint differs.

The tests are not in moto's wheel. pip fetches its source from PyPI, once, into build/moto, with an environment that has moto itself,
whose helpers the tests use. Files of the suite that are not run:

    test_server.py                moto's own server, called in its process
    test_sqs_authentication.py    policies of IAM
    test_sqs_cloudformation.py    queues made by CloudFormation
    test_sqs_integration.py       queues that call functions of Lambda
    test_sqs_multiaccount.py      roles of STS

moto skips twelve of its tests itself where it runs against a server: they set its clock or read its memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.running_service import RunningService, serve
from sqs.conftest import mounts
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service.settings import ServiceSettings

pytestmark = pytest.mark.long
VERSION = "5.2.3"
PACKAGES = (f"moto[sqs,server]=={VERSION}", "boto3==1.44.5", "pytest==9.2.0", "freezegun==1.5.5")
ACCOUNT = "123456789012"
"""The suite's account, which is the namespace here."""
PEERS = Path(__file__).parent / "peers"
PLACE = Path(__file__).parents[2] / "build" / "moto"
FILES = ("test_sqs.py", "test_sqs_message_attributes.py")
MOST_S = 900


@pytest.fixture(scope="module")
def suite() -> Path:
    """The folder of moto's source, beside an environment that can run its tests; skips where pip cannot fetch them."""
    source, python = PLACE / f"moto-{VERSION}", PLACE / "environment" / "bin" / "python"
    done = PLACE / "installed"
    wanted = "\n".join((sys.version, *PACKAGES))
    if done.exists() and done.read_text() == wanted:
        return source
    PLACE.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    try:
        _pip("download", "--no-deps", "--no-binary", "moto", "--dest", PLACE, f"moto=={VERSION}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", python.parents[1]], check=True)
        _pip("--python", python, "install", "--no-compile", *PACKAGES)
    except subprocess.CalledProcessError as fault:
        pytest.skip(f"needs moto {VERSION} and its source from PyPI, which pip could not fetch: {_last_line(fault)}")
    with tarfile.open(PLACE / f"moto-{VERSION}.tar.gz") as archive:
        archive.extractall(PLACE, filter="data")
    done.write_text(wanted)
    return source


def _pip(*words: str | Path) -> None:
    line: list[str | Path] = [sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"]
    subprocess.run(line, check=True, capture_output=True, text=True, timeout=MOST_S)


def _last_line(fault: subprocess.CalledProcessError) -> str:
    return ([line for line in fault.stderr.splitlines() if line.startswith("ERROR")] or [str(fault)])[-1]


@pytest.fixture
def service(valkey_url: str) -> Iterator[RunningService]:
    settings = ServiceSettings(namespaces=(ACCOUNT,))
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings, mounts()) as running:
        yield running


def test_moto_s_own_tests(suite: Path, service: RunningService) -> None:
    surroundings = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "TEST_SERVER_MODE": "true",
        "TEST_SERVER_MODE_ENDPOINT": service.url,
        "MOTO_EXCLUSIONS": str(PEERS / "moto_exclusions.txt"),
        "PYTHONPATH": str(PEERS),
    }
    files = [suite / "tests" / "test_sqs" / name for name in FILES]
    line = [
        PLACE / "environment" / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "moto_plugin",
        "--tb=short",
        "--color=no",
        "-rfE",
        *files,
    ]
    told = PLACE / "output.txt"
    with told.open("w") as output:
        ended = subprocess.run(
            line, cwd=suite, env=surroundings, stdout=output, stderr=output, timeout=MOST_S, check=False
        )
    assert ended.returncode == 0, told.read_text()[-20_000:]
    last = told.read_text().splitlines()[-1]
    found = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", last)}
    assert found["passed"] >= 89, last
    print(last)
