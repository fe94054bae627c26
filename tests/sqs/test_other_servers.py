"""The dialect on a Cluster, and on a master that Sentinels watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.running_service import RunningService, serve
from sqs.conftest import mounts
from sqs.test_operations import receive
from sqs.test_redrive import bodies, redrive
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service.settings import ServiceSettings
from until import until

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


@pytest.fixture(params=["cluster of valkey", "sentinels of valkey"])
def running_service(
    request: pytest.FixtureRequest, constellation: Callable[[str], Any], namespace: str
) -> Iterator[RunningService]:
    url = constellation(request.param).url
    settings = ServiceSettings(namespaces=(namespace,))
    with serve(lambda name: AsyncClient(url, namespace=name), settings, mounts()) as running:
        yield running


def test_a_message_s_life_elsewhere(sqs: Any, queue: str) -> None:
    entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
    assert len(sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == 10
    taken = receive(sqs, queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
    assert sorted(one["Body"] for one in taken) == [str(n) for n in range(10)]
    given = [{"Id": one["Body"], "ReceiptHandle": one["ReceiptHandle"]} for one in taken]
    assert len(sqs.delete_message_batch(QueueUrl=queue, Entries=given)["Successful"]) == 10
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive(sqs, queue, dead)
    sqs.send_message(QueueUrl=queue, MessageBody="poison", DelaySeconds=1)
    (late,) = receive(sqs, queue, WaitTimeSeconds=10)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=late["ReceiptHandle"], VisibilityTimeout=0)
    assert receive(sqs, queue) == []
    assert bodies(sqs, dead) == ["poison"]
    sqs.delete_queue(QueueUrl=queue)
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["dead"]


def test_a_queue_may_have_partitions(sqs: Any, running_service: RunningService, namespace: str) -> None:
    queue = sqs.create_queue(QueueName="wide")["QueueUrl"]
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive(sqs, queue, dead)
    running_service.run(running_service.app.clients.partitioned(namespace, "wide", 4).stats())
    sent = [sqs.send_message(QueueUrl=queue, MessageBody=str(n))["MessageId"] for n in range(10)]
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "10"
    for _ in sent:
        found = list[str]()

    def move() -> bool:
        receive(sqs, queue, MaxNumberOfMessages=10, VisibilityTimeout=0)
        found.extend(bodies(sqs, dead))
        return len(found) == len(sent)

    until(move)
    assert sorted(found) == [str(n) for n in range(10)]
