"""``tarry serve --dialect sqs`` as a process: beside the dashboard, with the keys that ``tarry token create`` shows, until SIGTERM."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.test_process import Start, start  # noqa: F401  # a fixture
from sqs.conftest import boto
from sqs.test_operations import receive
from until import LONGEST_S
from warm import WarmTarry

pytestmark = pytest.mark.slow
LIST = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.ListQueues"}


def test_it_is_served_only_where_it_is_asked_for(start: Start) -> None:  # noqa: F811
    running = start("--namespace", "plain")
    assert httpx.post(f"{running.url}/sqs/", content=b"{}", headers=LIST).status_code == 404


def test_a_process_with_the_dialect(start: Start, valkey_url: str, tarry_command: WarmTarry, tmp_path: Path) -> None:  # noqa: F811
    surroundings = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": "sqs-process"}
    words = ("token", "create", "--scope", "admin", "--sqs", "--json")
    made = tarry_command.run(words, None, surroundings, tmp_path)
    made.check_returncode()
    token: dict[str, Any] = json.loads(made.stdout)
    running = start("--namespace", "sqs-process", "--dialect", "sqs", "--drain", "0s")
    client = boto(running.url, token["id"], token["secret_key"])
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    assert queue == f"{running.url}/sqs/sqs-process/orders"
    client.send_message(QueueUrl=queue, MessageBody="x")
    assert receive(client, queue)[0]["Body"] == "x"
    at_root = httpx.post(
        f"{running.url}/", content=b"{}", headers=LIST
    )  # as Celery's transport; the dashboard is there too
    assert at_root.json()["__type"] == "com.amazonaws.sqs#MissingAuthenticationToken"
    headers = {"authorization": f"Bearer {token['token']}"}
    assert 'route="sqs_call",status="200"' in httpx.get(f"{running.url}/metrics", headers=headers).text
    running.child.send_signal(signal.SIGTERM)
    assert running.child.wait(LONGEST_S) == 0
    client.close()
