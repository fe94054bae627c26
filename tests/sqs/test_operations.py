"""The operations, as boto3 performs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.exceptions
import pytest

from service.running_service import RunningService, serve
from sqs.conftest import boto, mounts
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.sqs.messages import ATTRIBUTES, WHOLE
from tarry.programs.sqs.queues import NEVER
from tarry.values.names import OwnTopic
from tarry.verbs.codecs import JSON
from tarry.verbs.jobs.options import JobOptions, NewJob

YEAR = 365 * 86_400
NOT_IN_FLIGHT = "AWS.SimpleQueueService.MessageNotInflight"


def refused(act: Callable[..., Any], **given: Any) -> str:
    """The code of an error."""
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        act(**given)
    code: str = raised.value.response["Error"]["Code"]
    return code


def receive(sqs: Any, queue: str, **given: Any) -> list[dict[str, Any]]:
    return list(sqs.receive_message(QueueUrl=queue, **given).get("Messages", []))


def test_a_message_is_sent_received_and_deleted(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    assert queue == f"{running_service.url}/sqs/{namespace}/orders"
    sent = sqs.send_message(QueueUrl=queue, MessageBody='{"order": "Köln"}')
    (message,) = receive(sqs, queue, AttributeNames=["All"], WaitTimeSeconds=5)
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], '{"order": "Köln"}')
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert receive(sqs, queue) == [], "it is invisible"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])  # as SQS says: no error
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert [counts[name] for name in counts if name.startswith("ApproximateNumber")] == ["0", "0", "0"]


def test_a_delay_of_a_year_is_kept(sqs: Any, queue: str, running_service: RunningService, topic: Any) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=YEAR)
    job = running_service.run(topic("orders").get(sent["MessageId"]))
    assert job.state == "delayed"
    assert round((job.due - job.created).total_seconds()) == YEAR
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessagesDelayed"])
    assert counts["Attributes"] == {"ApproximateNumberOfMessagesDelayed": "1"}
    assert job.max_attempts is None


def test_queues_are_created_found_listed_and_deleted(sqs: Any, queue: str) -> None:
    assert sqs.create_queue(QueueName="orders")["QueueUrl"] == queue
    assert sqs.get_queue_url(QueueName="orders")["QueueUrl"] == queue
    assert refused(sqs.create_queue, QueueName="orders", Attributes={"DelaySeconds": "7"}) == "QueueAlreadyExists"
    other = sqs.create_queue(QueueName="others")["QueueUrl"]
    bills = sqs.create_queue(QueueName="bills")["QueueUrl"]
    assert sqs.list_queues()["QueueUrls"] == [bills, queue, other]
    assert sqs.list_queues(QueueNamePrefix="o")["QueueUrls"] == [queue, other]
    pages = [page["QueueUrls"] for page in sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 2})]
    assert pages == [[bills, queue], [other]]
    sqs.send_message(QueueUrl=other, MessageBody="goes with it")
    sqs.delete_queue(QueueUrl=other)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName="others")
    assert refused(sqs.send_message, QueueUrl=other, MessageBody="x") == "AWS.SimpleQueueService.NonExistentQueue"
    assert receive(sqs, sqs.create_queue(QueueName="others")["QueueUrl"]) == []


def test_queues_are_listed_page_by_page_and_no_more_is_read(
    own_server: Callable[..., ServerProcess], namespace: str
) -> None:
    server = own_server()
    settings = ServiceSettings(namespaces=(namespace,))
    with serve(lambda name: AsyncClient(server.url, namespace=name), settings, mounts()) as running_service:
        sqs = boto(running_service.url)
        names = ["a-", "a-0", "b", "b-", "b-0", "b-1", "b0", "c"]
        for name in names:
            sqs.create_queue(QueueName=name)
        registry = running_service.app.clients.own_topic(namespace, OwnTopic.SQS_QUEUES)
        many = [NewJob((b'{"attributes":{}}', JSON), id=f"z{number:04}", at=NEVER) for number in range(2500)]
        for begin in range(0, 2500, 1000):
            added = registry.verbs.add_many(many[begin : begin + 1000], JobOptions(), atomic=False)
            running_service.run(registry.engine.run(added))
        for prefix in ("a-", "b", "b-", "b-1", "c", "d", "-"):
            pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2})
            found = [url.rpartition("/")[2] for page in pages for url in page.get("QueueUrls", [])]
            assert found == [name for name in names if name.startswith(prefix)]
        pages = sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 1000})
        assert sum(len(page["QueueUrls"]) for page in pages) == len(names) + 2500
        reads = jobs_read(server)
        assert len(sqs.list_queues(QueueNamePrefix="b", MaxResults=3)["QueueUrls"]) == 3
        assert jobs_read(server) - reads < 50
        sqs.close()


def jobs_read(server: ServerProcess) -> int:
    """How many fields of hashes the server has read."""
    (line,) = [line for line in server.ask("INFO", "commandstats").decode().splitlines() if "cmdstat_hget:" in line]
    return int(line.split("calls=")[1].split(",")[0])


@pytest.mark.parametrize(
    "record",
    [
        b'{"attributes":{"VisibilityTimeout":"abc","DelaySeconds":"-5","MaximumMessageSize":"1e9"}}',
        b'{"attributes":{"VisibilityTimeout":7,"ReceiveMessageWaitTimeSeconds":"21","Unknown":"1"}}',
        b'{"attributes":{"RedrivePolicy":"[[["}}',
        b'{"attributes":{"RedrivePolicy":"{\\"deadLetterTargetArn\\":7,\\"maxReceiveCount\\":1}"}}',
        b'{"attributes":[],"tags":{"":"","a":7},"created":"long ago"}',
        b'{"attributes":{},"created":-1}',
        b'{"attributes":{},"created":99999999999999999999}',
        b"{}",
        b"7",
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_stored_record_that_is_not_valid_has_the_defaults(
    sqs: Any, queue: str, running_service: RunningService, namespace: str, record: bytes
) -> None:
    registry = running_service.app.clients.own_topic(namespace, OwnTopic.SQS_QUEUES)
    options = JobOptions(at=NEVER, if_exists="replace")
    running_service.run(registry.engine.run(registry.verbs.add((record, JSON), options, "orders")))
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert [message["Body"] for message in receive(sqs, queue, WaitTimeSeconds=5)] == ["x"]
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    names = ("VisibilityTimeout", "DelaySeconds", "MaximumMessageSize", "ReceiveMessageWaitTimeSeconds")
    assert [shown[name] for name in names] == ["30", "0", "1048576", "0"]
    assert "RedrivePolicy" not in shown
    assert sqs.list_queues()["QueueUrls"] == [queue]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "7"})
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "b"})
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"a": "b"}
    sqs.delete_queue(QueueUrl=queue)


def test_attributes_and_tags_are_kept(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "7", "DelaySeconds": str(YEAR)})
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout", "DelaySeconds", "QueueArn"])
    arn = shown["Attributes"].pop("QueueArn")
    assert arn.startswith("arn:aws:sqs:eu-central-1:")
    assert shown["Attributes"] == {"VisibilityTimeout": "7", "DelaySeconds": str(YEAR)}
    assert refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"Depth": "7"}) == "InvalidAttributeName"
    wrong = {"VisibilityTimeout": "43201"}
    assert refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes=wrong) == "InvalidAttributeValue"
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "bills", "stage": "test"})
    sqs.untag_queue(QueueUrl=queue, TagKeys=["stage"])
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"team": "bills"}


@pytest.mark.parametrize(
    "stored", ['{"a":{"DataType":"Binary","BinaryValue":"x"}}', '{"a":{"DataType":"Numb","StringValue":"q"}}', '{"":{}}', "["]
)  # fmt: skip
def test_attributes_that_another_client_stored_wrong_are_left_out(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any], stored: str
) -> None:
    """A good message of the same batch arrives."""
    sqs.send_message(QueueUrl=queue, MessageBody="good")
    running_service.run(topic("orders").add((b'"bad"', JSON), headers={ATTRIBUTES: stored}))
    found = receive(sqs, queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
    assert {one["Body"] for one in found} == {"good", "bad"}
    assert all("MessageAttributes" not in one for one in found)


def test_message_attributes_come_back_with_their_md5(sqs: Any, queue: str) -> None:
    given = {
        "text": {"DataType": "String", "StringValue": "Grüße"},
        "number": {"DataType": "Number.int", "StringValue": "7"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=given, MessageSystemAttributes=trace)
    large = {"large": {"DataType": "Binary", "BinaryValue": bytes(100_000)}}
    sqs.send_message(QueueUrl=queue, MessageBody="large", MessageAttributes=large)  # boto3 compares the MD5 sums
    first, second = receive(
        sqs, queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    assert first["MessageAttributes"] == given
    assert first["Attributes"]["AWSTraceHeader"] == "Root=1"
    assert (second["Body"], second["MessageAttributes"]) == ("large", large)
    for message in (first, second):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    again, _ = receive(sqs, queue, MaxNumberOfMessages=10, MessageAttributeNames=["te.*", "number"])
    assert set(again["MessageAttributes"]) == {"text", "number"}


def test_batches_are_done_entry_by_entry(sqs: Any, queue: str) -> None:
    entries = [{"Id": str(at), "MessageBody": f"m{at}"} for at in range(9)]
    entries.append({"Id": "bad", "MessageBody": "\x01"})
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [one["Id"] for one in sent["Successful"]] == [str(at) for at in range(9)]
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in sent["Failed"]] == [
        ("bad", "InvalidMessageContents", True)
    ]
    found = receive(sqs, queue, MaxNumberOfMessages=10)
    assert [one["Body"] for one in found] == [f"m{at}" for at in range(9)]
    handles = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(found)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=queue, Entries=[{**one, "VisibilityTimeout": 100} for one in handles]
    )
    assert len(changed["Successful"]) == 9
    gone = sqs.delete_message_batch(QueueUrl=queue, Entries=[*handles, {"Id": "bad", "ReceiptHandle": "bad"}])
    assert len(gone["Successful"]) == 9
    assert [one["Code"] for one in gone["Failed"]] == ["ReceiptHandleIsInvalid"]
    prefix = "AWS.SimpleQueueService."
    assert refused(sqs.delete_message_batch, QueueUrl=queue, Entries=[]) == prefix + "EmptyBatchRequest"
    many = [{"Id": str(at), "MessageBody": "x"} for at in range(11)]
    assert refused(sqs.send_message_batch, QueueUrl=queue, Entries=many) == prefix + "TooManyEntriesInBatchRequest"
    twice = [{"Id": "a", "MessageBody": "x"}] * 2
    assert refused(sqs.send_message_batch, QueueUrl=queue, Entries=twice) == prefix + "BatchEntryIdsNotDistinct"
    odd = [{"Id": "a b", "MessageBody": "x"}]
    assert refused(sqs.send_message_batch, QueueUrl=queue, Entries=odd) == prefix + "InvalidBatchEntryId"


def test_a_message_that_is_received_too_often_moves_to_the_dead_letter_queue(sqs: Any, queue: str) -> None:
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "2"})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]
    attributes = {"a": {"DataType": "String", "StringValue": "b"}}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="poison", MessageAttributes=attributes)
    for _ in range(2):
        (message,) = receive(sqs, queue, AttributeNames=["All"])
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    sqs.send_message(QueueUrl=queue, MessageBody="good")
    assert [one["Body"] for one in receive(sqs, queue)] == ["good"], "it goes on to the next"
    (moved,) = receive(sqs, dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert (moved["MessageId"], moved["Body"], moved["MessageAttributes"]) == (sent["MessageId"], "poison", attributes)
    assert moved["Attributes"]["SentTimestamp"] == message["Attributes"]["SentTimestamp"]
    assert moved["Attributes"]["DeadLetterQueueSourceArn"].endswith(":orders")
    missing = json.dumps({"deadLetterTargetArn": arn + "x", "maxReceiveCount": 2})
    code = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": missing})
    assert code == "InvalidParameterValue"


def test_without_a_redrive_policy_a_message_comes_back_for_ever(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="again")
    for attempt in range(1, 31):
        (message,) = receive(sqs, queue, AttributeNames=["ApproximateReceiveCount"])
        assert message["Attributes"]["ApproximateReceiveCount"] == str(attempt)
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)


def test_late_deletes_behave_as_sqs_says(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="late")
    (first,) = receive(sqs, queue)
    hidden = {"QueueUrl": queue, "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}
    sqs.change_message_visibility(**hidden)
    assert refused(sqs.change_message_visibility, **hidden) == NOT_IN_FLIGHT
    (second,) = receive(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])  # not the newest handle: nothing happens
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])  # the newest: it is deleted, though late
    assert receive(sqs, queue) == []
    other = sqs.create_queue(QueueName="others")["QueueUrl"]
    assert (
        refused(sqs.delete_message, QueueUrl=other, ReceiptHandle=second["ReceiptHandle"]) == "ReceiptHandleIsInvalid"
    )


def test_the_handle_of_an_earlier_receive_changes_the_visibility(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="slow")
    (first,) = receive(sqs, queue)
    older = {"QueueUrl": queue, "ReceiptHandle": first["ReceiptHandle"]}
    sqs.change_message_visibility(**older, VisibilityTimeout=0)
    (second,) = receive(sqs, queue, VisibilityTimeout=600)
    sqs.change_message_visibility(**older, VisibilityTimeout=900)
    assert receive(sqs, queue) == []
    sqs.change_message_visibility(**older, VisibilityTimeout=0)  # it is visible again for everybody
    assert refused(sqs.change_message_visibility, **older, VisibilityTimeout=9) == NOT_IN_FLIGHT
    (third,) = receive(sqs, queue)
    entry = {"Id": "a", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 0}
    assert sqs.change_message_visibility_batch(QueueUrl=queue, Entries=[entry])["Successful"] == [{"Id": "a"}]
    assert receive(sqs, queue)[0]["MessageId"] == third["MessageId"]


def test_a_message_of_a_mebibyte_needs_no_setting(sqs: Any, queue: str) -> None:
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["MaximumMessageSize"])["Attributes"]
    assert shown == {"MaximumMessageSize": "1048576"}
    sqs.send_message(QueueUrl=queue, MessageBody="x" * 1_000_000)
    code = refused(sqs.send_message, QueueUrl=queue, MessageBody="x" * 1_048_577)
    assert code == "InvalidParameterValue"
    large = [{"Id": "a", "MessageBody": "x" * 1_048_577}]
    code = refused(sqs.send_message_batch, QueueUrl=queue, Entries=large)
    assert code == "AWS.SimpleQueueService.BatchRequestTooLong"


def test_no_tags_are_refused(sqs: Any, queue: str) -> None:
    assert refused(sqs.tag_queue, QueueUrl=queue, Tags={}) == "MissingParameter"
    assert refused(sqs.untag_queue, QueueUrl=queue, TagKeys=[]) == "InvalidParameterValue"


def test_a_receive_count_that_is_given_as_text_is_shown_as_a_number(sqs: Any, queue: str) -> None:
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "7"})
    other = sqs.create_queue(QueueName="others", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=other, AttributeNames=["RedrivePolicy"])["Attributes"]["RedrivePolicy"]
    assert json.loads(shown) == {"deadLetterTargetArn": arn, "maxReceiveCount": 7}
    assert sqs.create_queue(QueueName="others", Attributes={"RedrivePolicy": policy})["QueueUrl"] == other
    sqs.set_queue_attributes(QueueUrl=other, Attributes={"RedrivePolicy": shown})


def test_errors_have_awss_texts(sqs: Any, queue: str) -> None:
    def text(act: Callable[..., Any], **given: Any) -> str:
        with pytest.raises(botocore.exceptions.ClientError) as raised:
            act(QueueUrl=queue, **given)
        return str(raised.value.response["Error"]["Message"])

    for act, name in (
        (sqs.send_message_batch, "SendMessage"),
        (sqs.delete_message_batch, "DeleteMessage"),
        (sqs.change_message_visibility_batch, "ChangeMessageVisibility"),
    ):
        assert text(act, Entries=[]) == f"There should be at least one {name}BatchRequestEntry in the request."
    assert text(sqs.delete_message, ReceiptHandle="x") == "The input receipt handle is invalid."
    failed = sqs.delete_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": "x"}])["Failed"]
    assert failed[0]["Message"] == 'The input receipt handle "x" is not a valid receipt handle.'
    named = {"ö": {"DataType": "String", "StringValue": "x"}}
    assert text(sqs.send_message, MessageBody="x", MessageAttributes=named).startswith(
        "The message attribute name 'ö' is invalid. Attribute name can contain A-Z, a-z, 0-9,"
    )
    assert text(sqs.tag_queue, Tags={str(n): "x" for n in range(51)}) == "Too many tags added for queue orders."


def test_fifo_queues_are_refused_in_awss_words(sqs: Any, queue: str) -> None:
    assert refused(sqs.create_queue, QueueName="a.fifo", Attributes={"FifoQueue": "true"}) == "InvalidParameterValue"
    assert refused(sqs.create_queue, QueueName="a", Attributes={"FifoQueue": "true"}) == "InvalidAttributeName"
    given = {"QueueUrl": queue, "MessageBody": "x", "MessageGroupId": "g"}
    assert refused(sqs.send_message, **given, MessageDeduplicationId="d") == "InvalidParameterValue"
    sqs.send_message(**given)  # as a standard queue of AWS takes it
    (message,) = receive(sqs, queue, AttributeNames=["All"])
    assert message["Attributes"]["MessageGroupId"] == "g"


def test_a_queue_is_purged(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=YEAR)
    sqs.send_message(QueueUrl=queue, MessageBody="y")
    sqs.purge_queue(QueueUrl=queue)
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert [counts[name] for name in counts if name.startswith("ApproximateNumber")] == ["0", "0", "0"]


@pytest.mark.parametrize("headers", [{}, {WHOLE: "1"}])
def test_a_message_that_is_nested_too_deeply_does_not_keep_the_others(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any], headers: dict[str, str]
) -> None:
    deep = b"[" * 9999 + b"]" * 9999
    running_service.run(topic("orders").add((deep, JSON), headers=headers))
    sqs.send_message(QueueUrl=queue, MessageBody="tea")
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [one["Body"] for one in found] == [deep.decode(), "tea"]
