"""Other clients as they are, but for their endpoint, each in an environment of its own: an older boto3, aws, the SDK for JavaScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.running_service import RunningService
from until import LONGEST_S, until

pytestmark = pytest.mark.long
PEERS = Path(__file__).parent / "peers"
SIGNING = {"AWS_ACCESS_KEY_ID": "anybody", "AWS_SECRET_ACCESS_KEY": "anything", "AWS_DEFAULT_REGION": "eu-central-1"}


def run(*line: str | Path, cwd: Path | None = None) -> str:
    found = subprocess.run(
        line, capture_output=True, text=True, timeout=LONGEST_S, check=False, cwd=cwd, env={**os.environ, **SIGNING}
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def environment(where: Path, *packages: str) -> Path:
    """Where the programs of a virtual environment with these packages are. Debian's Python has no pip to put there."""
    run(sys.executable, "-m", "venv", "--without-pip", where)
    run(sys.executable, "-m", "pip", "--python", where / "bin" / "python", "install", "--quiet", *packages)
    return where / "bin"


def test_a_boto3_that_speaks_the_query_protocol(running_service: RunningService, tmp_path: Path) -> None:
    programs = environment(tmp_path / "peer", "boto3==1.26.165")
    assert run(programs / "python", PEERS / "old_boto3.py", f"{running_service.url}/sqs") == "done\n"


def test_the_sdk_for_javascript(running_service: RunningService, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    shutil.copy(PEERS / "javascript.mjs", tmp_path)
    run("npm", "install", "--silent", "--no-save", "--prefix", tmp_path, "@aws-sdk/client-sqs", cwd=tmp_path)
    assert run("node", "javascript.mjs", f"{running_service.url}/sqs", cwd=tmp_path) == "done\n"


def test_the_aws_command_line(running_service: RunningService, tmp_path: Path) -> None:
    programs = environment(tmp_path / "peer", "awscli")

    def aws(*words: str) -> dict[str, str]:
        told = run(programs / "aws", "--endpoint-url", f"{running_service.url}/sqs", "--output", "json", "sqs", *words)
        return dict(json.loads(told or "{}"))

    queue = ("--queue-url", aws("create-queue", "--queue-name", "cli")["QueueUrl"])
    sent = aws("send-message", *queue, "--message-body", "now")
    aws("send-message", *queue, "--message-body", "in a year", "--delay-seconds", str(365 * 86_400))
    received = aws("receive-message", *queue, "--wait-time-seconds", "1")["Messages"][0]
    assert isinstance(received, dict)
    assert received["MessageId"] == sent["MessageId"]
    aws("delete-message", *queue, "--receipt-handle", received["ReceiptHandle"])
    counted = aws("get-queue-attributes", *queue, "--attribute-names", "All")["Attributes"]
    assert isinstance(counted, dict)
    assert counted["ApproximateNumberOfMessagesDelayed"] == "1"
    aws("purge-queue", *queue)
    aws("delete-queue", *queue)


def test_celerys_own_transport(running_service: RunningService, tmp_path: Path) -> None:
    programs = environment(tmp_path / "peer", "celery[sqs]")
    shutil.copy(PEERS / "celery_app.py", tmp_path)
    done = tmp_path / "done"
    surroundings = {
        **os.environ,
        **SIGNING,
        "BROKER": running_service.url.replace("http://", "sqs://a:b@"),
        "DONE": str(done),
    }
    line = [programs / "celery", "-A", "celery_app", "worker", "--pool", "solo", "--without-mingle", "--without-gossip"]
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(line, cwd=tmp_path, env=surroundings, stdout=log, stderr=log)
    try:
        for word in ("one", "two"):
            code = f"import celery_app; celery_app.write.apply_async(['{word}'])"
            subprocess.run(
                [programs / "python", "-c", code], cwd=tmp_path, env=surroundings, timeout=LONGEST_S, check=True
            )
        until(
            lambda: done.exists() and sorted(done.read_text().split()) == ["one", "two"], (tmp_path / "log").read_text()
        )
    finally:
        worker.terminate()
        worker.wait(LONGEST_S)
