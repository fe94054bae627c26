"""Messages that are received too often are moved, and none is lost on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from service.running_service import RunningService
from sqs.test_operations import receive, refused
from tarry.programs.sqs import operations


@pytest.fixture
def dead(sqs: Any, queue: str) -> str:
    """The URL of the dead-letter queue of ``queue``, after one receive."""
    url: str = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive(sqs, queue, url)
    return url


def redrive(sqs: Any, queue: str, dead: str, most: int = 1) -> None:
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": str(most)})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})


def fail(sqs: Any, queue: str) -> None:
    """Receives a message once too often."""
    (message,) = receive(sqs, queue)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert receive(sqs, queue) == []


def bodies(sqs: Any, queue: str) -> list[str]:
    found = []
    while messages := receive(sqs, queue):
        found += [one["Body"] for one in messages]
    return sorted(found)


def test_a_queue_is_not_its_own_dead_letter_queue(sqs: Any, queue: str) -> None:
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    code = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert code == "InvalidParameterValue"


def test_two_queues_may_be_each_others_dead_letter_queues(sqs: Any, queue: str, dead: str) -> None:
    redrive(sqs, dead, queue)
    sent = sqs.send_message(QueueUrl=queue, MessageBody="poison")
    for here, there in [(queue, dead), (dead, queue)] * 2:
        fail(sqs, here)  # one receive moves it once: it does not travel on by itself
        (moved,) = receive(sqs, there, AttributeNames=["All"], VisibilityTimeout=1)
        assert (moved["MessageId"], moved["Body"]) == (sent["MessageId"], "poison")
        assert moved["Attributes"]["DeadLetterQueueSourceArn"].rpartition(":")[2] == here.rpartition("/")[2]
        sqs.change_message_visibility(QueueUrl=there, ReceiptHandle=moved["ReceiptHandle"], VisibilityTimeout=0)
        redrive(sqs, there, here, most=2)  # the receive above counted


def test_a_job_under_an_id_that_the_dead_letter_queue_has_is_moved_too(
    sqs: Any, queue: str, dead: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    other = sqs.create_queue(QueueName="invoices")["QueueUrl"]
    redrive(sqs, other, dead)
    for name, url in (("orders", queue), ("orders", queue), ("invoices", other)):
        running_service.run(topic(name).add((b'"%s"' % name.encode(), operations.messages.JSON), id="order-7"))
        fail(sqs, url)
    assert bodies(sqs, dead) == ["invoices", "orders", "orders"]


def test_a_move_that_is_interrupted_is_repeated_under_the_same_id(
    sqs: Any,
    queue: str,
    dead: str,
    topic: Callable[[str], Any],
    running_service: RunningService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def killed(*_: object) -> None:
        raise ConnectionError("as if the service were killed between add and finish")

    id = sqs.send_message(QueueUrl=queue, MessageBody="poison")["MessageId"]
    (message,) = receive(sqs, queue)
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    monkeypatch.setattr(operations, "_finish", killed)
    with pytest.raises(sqs.exceptions.ClientError):
        sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)
    monkeypatch.undo()
    assert receive(sqs, queue, WaitTimeSeconds=1) == [], "it is moved once more"
    assert [one["MessageId"] for one in receive(sqs, dead, MaxNumberOfMessages=10)] == [id]
    assert running_service.run(topic("orders").stats()).reserved == 0


def test_headers_without_room_for_the_marks_are_kept(
    sqs: Any, queue: str, dead: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    body = b'"poison"', operations.messages.JSON
    running_service.run(topic("orders").add(body, id="full", headers={"x": "y" * 8_184}))
    fail(sqs, queue)
    assert bodies(sqs, dead) == ["poison"]


def test_attributes_that_json_makes_long_are_kept(sqs: Any, queue: str) -> None:
    attributes = {"quotes": {"DataType": "String", "StringValue": '"' * 2_400}}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    (message,) = receive(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes


def test_a_full_queue_takes_the_entries_of_a_batch_that_it_has_room_for(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    running_service.run(topic("orders").configure(max_pending=3))
    entries = [{"Id": str(at), "MessageBody": f"m{at}"} for at in range(5)]
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [one["Id"] for one in sent["Successful"]] == ["0", "1", "2"]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in sent["Failed"]] == [
        ("3", "RequestThrottled", False),
        ("4", "RequestThrottled", False),
    ]
    assert running_service.run(topic("orders").stats()).not_added == 2
    assert refused(sqs.send_message_batch, QueueUrl=queue, Entries=entries) == "RequestThrottled"
    assert running_service.run(topic("orders").stats()).ready == 3


def test_a_full_queue_takes_what_is_moved_there_and_no_message_of_others(
    sqs: Any, queue: str, dead: str, running_service: RunningService, topic: Callable[[str], Any]
) -> None:
    running_service.run(topic("dead").configure(max_pending=1))
    sqs.send_message(QueueUrl=dead, MessageBody="the only one")
    assert refused(sqs.send_message, QueueUrl=dead, MessageBody="too much") == "RequestThrottled"
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    fail(sqs, queue)
    assert running_service.run(topic("dead").stats()).ready == 2
