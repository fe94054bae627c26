"""examples/deploy/keda.yaml: the query, evaluated by promtool on what a service exports, and what KEDA's scalers for beanstalkd and SQS ask.
KEDA itself is not run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import tarry
from beanstalk.conftest import speaking
from service.running_service import serve
from sqs.conftest import boto, mounts
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.beanstalk.server import PORT

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
DOCUMENTS = list(yaml.safe_load_all((DEPLOY / "keda.yaml").read_text()))
SCALED = [one for one in DOCUMENTS if one["kind"] == "ScaledObject"]
TRIGGERS = {trigger["type"]: trigger for one in SCALED for trigger in one["spec"]["triggers"]}
PROMTOOL = shutil.which("promtool")


def settings_of(kind: str) -> dict[str, str]:
    found: dict[str, str] = TRIGGERS[kind]["metadata"]
    return found


def fill(client: tarry.Client, topic: str) -> None:
    """Two ready jobs, one that is reserved, three that are due in five minutes, one of them in a minute, and one that is due later."""
    orders = client.topic(topic)
    orders.add_many([1, 2, 3])
    orders.pop(ttr="1h")
    orders.add(4, delay="50s")
    orders.add_many([5, 6], delay="4m")
    orders.add(7, delay="1h")


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")
def test_the_query_adds_up_what_is_ready_reserved_and_due_soon(own_server: Any, tmp_path: Path) -> None:
    running: ServerProcess = own_server()
    with (
        serve(lambda name: AsyncClient(running.url, namespace=name)) as service,
        tarry.Client(running.url, namespace="default") as client,
    ):
        fill(client, "shop")
        fill(client, "another")
        text = httpx.get(f"{service.url}/metrics").text
    series = {
        f"{sample.name}{{{labels}, instance={instance!r}}}": f"{sample.value:g}x4"
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name in ("tarry_jobs", "tarry_jobs_due")
        for labels in [", ".join(f'{name}="{value}"' for name, value in sample.labels.items())]
        for instance in ("a", "b")
    }
    query = settings_of("prometheus")["query"]
    cases = [
        {
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series.items() if kept in one],
            "promql_expr_test": [
                {"expr": query, "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": 6}] if found else []}
            ],
        }
        for kept, found in (("tarry_", True), ("another", False), ("tarry_jobs_due", False))
    ]
    file = tmp_path / "query.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert settings_of("prometheus")["ignoreNullValues"] == "false", "no metrics are no empty topic"


def test_the_scaler_for_beanstalkd_reads_a_tube(valkey_url: str, namespace: str) -> None:
    given = settings_of("beanstalkd")
    assert given["server"].endswith(f":{PORT}")
    assert "includeDelayed" not in given
    with speaking(valkey_url, namespace) as service, tarry.Client(valkey_url, namespace=namespace) as client:
        asking = b"stats-tube %s" % given["tube"].encode()
        assert service.connect()(asking) == b"NOT_FOUND", "KEDA takes it for an empty one"
        fill(client, given["tube"])
        told = service.connect().stats(asking)
    assert [told[f"current-jobs-{state}"] for state in ("ready", "reserved", "delayed")] == ["2", "1", "4"]


def test_the_scaler_for_sqs_reads_a_queue(own_server: Any) -> None:
    running: ServerProcess = own_server()
    given, asked = settings_of("aws-sqs-queue"), urlsplit(settings_of("aws-sqs-queue")["queueURL"])
    _, account, queue = asked.path.split("/")  # KEDA refuses any other number of parts
    with (
        serve(lambda name: AsyncClient(running.url, namespace=name), mounts=mounts()) as service,
        tarry.Client(running.url, namespace=account) as client,
    ):
        sqs = boto(service.url)
        assert urlsplit(given["awsEndpoint"]).path == urlsplit(sqs.meta.endpoint_url).path
        sqs.create_queue(QueueName=queue)
        fill(client, queue)
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
        told = sqs.get_queue_attributes(QueueUrl=given["queueURL"], AttributeNames=names)["Attributes"]
        sqs.close()
    assert [told[name] for name in names] == ["2", "1", "4"]


def test_each_deployment_is_scaled_by_one() -> None:
    assert [one["spec"]["scaleTargetRef"]["name"] for one in SCALED] == [one["metadata"]["name"] for one in SCALED]
    assert len({one["metadata"]["name"] for one in SCALED}) == len(SCALED)
    for trigger in TRIGGERS.values():
        assert all(isinstance(value, str) for value in trigger["metadata"].values()), "a number is refused"
    manifests = [one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if one]
    named = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    assert ("Deployment", SCALED[0]["metadata"]["name"]) in named
    assert ("Service", urlsplit(settings_of("aws-sqs-queue")["awsEndpoint"]).hostname) in named
    [access] = [one for one in DOCUMENTS if one["kind"] == "TriggerAuthentication"]
    assert TRIGGERS["aws-sqs-queue"]["authenticationRef"]["name"] == access["metadata"]["name"]
