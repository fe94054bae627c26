"""Fair queues: a ``MessageGroupId`` of a standard queue is a key, and the groups take turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.running_service import RunningService
from sqs.test_operations import receive
from sqs.test_redrive import fail, redrive


def send(sqs: Any, queue: str, group: str, count: int) -> None:
    for begin in range(0, count, 10):
        entries = [
            {"Id": str(n), "MessageBody": f"{group}-{n}", "MessageGroupId": group}
            for n in range(begin, min(begin + 10, count))
        ]
        assert not sqs.send_message_batch(QueueUrl=queue, Entries=entries).get("Failed")


def test_a_group_that_floods_does_not_hold_up_another(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    send(sqs, queue, "big", 30)
    sqs.send_message(QueueUrl=queue, MessageBody="small-0", MessageGroupId="small")
    first = receive(sqs, queue, MaxNumberOfMessages=2, AttributeNames=["MessageGroupId"])
    assert [one["Attributes"]["MessageGroupId"] for one in first] == ["big", "small"]
    rest = [one["Body"] for _ in range(3) for one in receive(sqs, queue, MaxNumberOfMessages=10)]
    assert rest == [f"big-{n}" for n in range(1, 30)], "and a group keeps its order"
    assert running_service.run(topic("orders").configure()).fair


def test_a_queue_that_was_made_unfair_stays_so(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    send(sqs, queue, "big", 3)
    running_service.run(topic("orders").configure(fair=False))
    send(sqs, queue, "small", 1)
    assert not running_service.run(topic("orders").configure()).fair
    assert [receive(sqs, queue)[0]["Body"] for _ in range(4)] == ["big-0", "big-1", "big-2", "small-0"]


def test_a_message_without_a_group_leaves_the_topic_as_it_is(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert not running_service.run(topic("orders").configure()).fair


def test_attributes_that_are_set_later_keep_the_queue_fair(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    send(sqs, queue, "big", 1)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "7"})
    running_service.run(topic("orders").configure(fair=False))
    send(sqs, queue, "big", 1)
    assert not running_service.run(topic("orders").configure()).fair, "it was made fair once"
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert shown["VisibilityTimeout"] == "7"


def test_a_dead_letter_queue_has_the_groups(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive(sqs, queue, dead)
    send(sqs, queue, "big", 1)
    fail(sqs, queue)
    (message,) = receive(sqs, dead, AttributeNames=["All"])
    assert message["Attributes"]["MessageGroupId"] == "big"
    assert running_service.run(topic("dead").get(message["MessageId"])).key == "big"


def test_a_queue_with_partitions_keeps_a_group_and_has_no_keys(
    sqs: Any, running_service: RunningService, namespace: str, topic: Callable[[str], Any]
) -> None:
    queue = sqs.create_queue(QueueName="wide")["QueueUrl"]
    running_service.run(running_service.app.clients.partitioned(namespace, "wide", 4).stats())
    send(sqs, queue, "big", 12)
    (message,) = receive(sqs, queue, AttributeNames=["All"])
    assert message["Attributes"]["MessageGroupId"] == "big"
    assert running_service.run(topic("wide").get(message["MessageId"])).key is None
