"""Both protocols: every operation's answer against botocore's service model, long polls, repeated and hostile requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import botocore.parsers
import botocore.serialize
import botocore.session
import httpx
import pytest

from service.running_service import RunningService
from until import LONGEST_S, until

MODEL = botocore.session.get_session().get_service_model("sqs")
JSON = {"content-type": "application/x-amz-json-1.0"}


class Wire:
    """Sends an operation as botocore would serialize it, and checks the answer's very shape."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(timeout=LONGEST_S)

    def __call__(self, operation: str, **given: Any) -> Any:
        model = MODEL.operation_model(operation)
        made = botocore.serialize.create_serializer("json").serialize_to_request(given, model)
        answer = self.http.post(f"{self.url}/sqs/", headers=made["headers"], content=made["body"])
        assert answer.headers["x-amzn-requestid"]
        if answer.status_code != 200:
            return answer.headers["x-amzn-query-error"].partition(";")[0]
        conforms(answer.json(), model.output_shape)
        raw = {"body": answer.content, "headers": answer.headers, "status_code": answer.status_code}
        parsed = botocore.parsers.create_parser("json").parse(raw, model.output_shape)
        parsed.pop("ResponseMetadata", None)
        return parsed


def conforms(value: Any, shape: Any) -> None:
    """Checks that every member of an answer is known to the model, and of its type."""
    if shape is None:
        assert value == {}
    elif shape.type_name == "structure":
        assert set(value) <= set(shape.members), set(value) - set(shape.members)
        assert set(shape.required_members) <= {*value, "Failed", "Successful"}
        for name, member in value.items():
            conforms(member, shape.members[name])
    elif shape.type_name == "list":
        assert isinstance(value, list)
        for one in value:
            conforms(one, shape.member)
    elif shape.type_name == "map":
        assert isinstance(value, dict)
        for one in value.values():
            conforms(one, shape.value)
    else:
        kinds: dict[str, Any] = {"string": str, "blob": str, "integer": int, "boolean": bool, "long": int}
        assert type(value) is kinds[shape.type_name]


@pytest.fixture
def wire(running_service: RunningService) -> Iterator[Wire]:
    made = Wire(running_service.url)
    yield made
    made.http.close()


def test_every_operation_answers_in_the_models_shape(wire: Wire) -> None:
    url = wire("CreateQueue", QueueName="orders", Attributes={"VisibilityTimeout": "7"}, tags={"a": "b"})["QueueUrl"]
    dead = wire("CreateQueue", QueueName="dead")["QueueUrl"]
    assert wire("GetQueueUrl", QueueName="orders") == {"QueueUrl": url}
    assert wire("ListQueues") == {"QueueUrls": [dead, url]}
    page = wire("ListQueues", MaxResults=1)
    assert wire("ListQueues", MaxResults=1, NextToken=page["NextToken"])["QueueUrls"] == [url]
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:eu-central-1:x:dead", "maxReceiveCount": 5})
    wire("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})
    assert wire("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": [url]}
    found = wire("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (found["VisibilityTimeout"], found["RedrivePolicy"]) == ("7", policy)
    wire("TagQueue", QueueUrl=url, Tags={"c": "d"})
    wire("UntagQueue", QueueUrl=url, TagKeys=["a"])
    assert wire("ListQueueTags", QueueUrl=url) == {"Tags": {"c": "d"}}
    attributes = {"n": {"DataType": "Number", "StringValue": "7"}, "b": {"DataType": "Binary", "BinaryValue": b"\0"}}
    sent = wire("SendMessage", QueueUrl=url, MessageBody="<&>\r\n", MessageAttributes=attributes)
    assert set(sent) == {"MessageId", "MD5OfMessageBody", "MD5OfMessageAttributes"}
    entries = [{"Id": "a", "MessageBody": "a", "DelaySeconds": 0}, {"Id": "b", "MessageBody": "\x02"}]
    batch = wire("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert ([one["Id"] for one in batch["Successful"]], batch["Failed"][0]["Code"]) == (["a"], "InvalidMessageContents")
    wanted = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"], "WaitTimeSeconds": 1}
    first, second = wire("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, **wanted)["Messages"]
    assert (first["Body"], first["MessageAttributes"]) == ("<&>\r\n", attributes)
    assert first["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    handle = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"]}
    assert wire("ChangeMessageVisibility", **handle, VisibilityTimeout=60) == {}
    entry = {"Id": "a", "ReceiptHandle": second["ReceiptHandle"]}
    changed = wire("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 60}])
    assert changed["Successful"] == [{"Id": "a"}]
    assert wire("DeleteMessage", **handle) == {}
    assert wire("DeleteMessageBatch", QueueUrl=url, Entries=[entry])["Successful"] == [{"Id": "a"}]
    assert wire("ReceiveMessage", QueueUrl=url) == {}
    assert wire("PurgeQueue", QueueUrl=url) == {}
    assert wire("DeleteQueue", QueueUrl=url) == {}
    prefix = "AWS.SimpleQueueService."
    assert wire("SendMessage", QueueUrl=url, MessageBody="x") == prefix + "NonExistentQueue"
    unsupported = wire("AddPermission", QueueUrl=dead, Label="x", AWSAccountIds=["x"], Actions=["*"])
    assert unsupported == prefix + "UnsupportedOperation"


def test_the_query_protocol_answers_in_xml(queue: str, running_service: RunningService) -> None:
    def send_query(action: str, **given: str) -> ET.Element:
        form = {"Action": action, "Version": "2012-11-05", **given}
        answer = httpx.post(queue, data=form, timeout=LONGEST_S)  # older clients send to the queue's URL
        assert answer.headers["content-type"] == "text/xml"
        return ET.fromstring(answer.content.replace(b' xmlns="http://queue.amazonaws.com/doc/2012-11-05/"', b""))

    value = {"MessageAttribute.1.Value.DataType": "String", "MessageAttribute.1.Value.StringValue": "b"}
    sent = send_query("SendMessage", MessageBody="<&>\r\n", **{"MessageAttribute.1.Name": "a", **value})
    received = send_query("ReceiveMessage", **{"AttributeName.1": "All", "MessageAttributeName.1": "All"})
    message = received.find("ReceiveMessageResult/Message")
    assert message is not None
    assert message.findtext("Body") == "<&>\r\n"
    assert message.findtext("MessageId") == sent.findtext("SendMessageResult/MessageId")
    assert message.findtext("MessageAttribute/Name") == "a"
    assert message.findtext("MessageAttribute/Value/StringValue") == "b"
    assert "ApproximateReceiveCount" in [name.text for name in message.iterfind("Attribute/Name")]
    entry = "DeleteMessageBatchRequestEntry"
    handle = message.findtext("ReceiptHandle") or ""
    entries = {f"{entry}.1.Id": "a", f"{entry}.1.ReceiptHandle": handle, f"{entry}.2.Id": "b"}
    deleted = send_query("DeleteMessageBatch", **entries)
    assert deleted.findtext(".//DeleteMessageBatchResultEntry/Id") == "a"
    assert deleted.findtext(".//BatchResultErrorEntry/Code") == "MissingParameter"
    assert deleted.findtext("ResponseMetadata/RequestId")
    refused = send_query("GetQueueUrl", QueueName="missing")
    assert refused.findtext("Error/Code") == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_receiver_that_waits_is_answered_when_a_message_is_due(
    sqs: Any, queue: str, running_service: RunningService
) -> None:
    found = list[Any]()
    held = {"QueueUrl": queue, "WaitTimeSeconds": 20, "MaxNumberOfMessages": 10}
    receiver = threading.Thread(target=lambda: found.append(sqs.receive_message(**held)))
    receiver.start()
    until(lambda: running_service.app.held_requests == 1)
    sqs.send_message(QueueUrl=queue, MessageBody="now")
    receiver.join(LONGEST_S)
    assert [one["Body"] for one in found[0]["Messages"]] == ["now"]


def test_a_receiver_that_waits_is_answered_503_when_the_service_drains(
    queue: str, running_service: RunningService
) -> None:
    found = list[Any]()
    body = {"QueueUrl": queue, "WaitTimeSeconds": 20}
    headers = {**JSON, "x-amz-target": "AmazonSQS.ReceiveMessage"}
    receiver = threading.Thread(
        target=lambda: found.append(
            httpx.post(f"{running_service.url}/sqs/", json=body, headers=headers, timeout=LONGEST_S)
        )
    )
    receiver.start()
    until(lambda: running_service.app.held_requests == 1)
    running_service.call(running_service.app.drain)
    receiver.join(LONGEST_S)
    assert found[0].status_code == 503
    assert found[0].json()["__type"] == "com.amazonaws.sqs#ServiceUnavailable"


def test_a_send_that_an_sdk_repeats_adds_one_message(sqs: Any, queue: str, running_service: RunningService) -> None:
    body = {"QueueUrl": queue, "MessageBody": "once"}
    headers = {**JSON, "x-amz-target": "AmazonSQS.SendMessage", "amz-sdk-invocation-id": "5f3c"}
    first, second = (httpx.post(f"{running_service.url}/sqs/", json=body, headers=headers).json() for _ in range(2))
    assert first == second
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [one["MessageId"] for one in found] == [first["MessageId"]]


def test_a_receiver_that_has_gone_keeps_no_message(sqs: Any, queue: str, running_service: RunningService) -> None:
    body = {"QueueUrl": queue, "WaitTimeSeconds": 20}
    headers = {**JSON, "x-amz-target": "AmazonSQS.ReceiveMessage"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{running_service.url}/sqs/", json=body, headers=headers, timeout=httpx.Timeout(20, read=0.2))
    until(lambda: running_service.app.held_requests == 0)
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "kept"


LONG = "x" * 100_000
HOSTILE: list[tuple[str, bytes]] = [
    ("SendMessage", b""),
    ("SendMessage", b"\xff\xfe"),
    ("SendMessage", b"[]"),
    ("SendMessage", b"null"),
    ("SendMessage", b"[" * 100_000),
    ("SendMessage", b'{"QueueUrl": 7}'),
    ("SendMessage", b'{"QueueUrl": "http://["}'),
    ("SendMessage", b'{"QueueUrl": "/%ff/%00", "MessageBody": "x"}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": {}}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "\\ud800"}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "x", "DelaySeconds": -1}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "x", "DelaySeconds": 1e300}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "x", "DelaySeconds": 2147483648}'),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "%s"}' % (b"x" * 1_048_577)),
    ("SendMessage", b'{"QueueUrl": "QUEUE", "MessageBody": "x", "MessageAttributes": {"": {"DataType": "String"}}}'),
    (
        "SendMessage",
        b'{"QueueUrl": "QUEUE", "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "?"}}}',
    ),
    ("SendMessageBatch", b'{"QueueUrl": "QUEUE", "Entries": [7]}'),
    ("SendMessageBatch", b'{"QueueUrl": "QUEUE", "Entries": [{"Id": {}}]}'),
    ("ReceiveMessage", b'{"QueueUrl": "QUEUE", "MaxNumberOfMessages": 11}'),
    ("ReceiveMessage", b'{"QueueUrl": "QUEUE", "WaitTimeSeconds": 21}'),
    ("ReceiveMessage", b'{"QueueUrl": "QUEUE", "VisibilityTimeout": 43201}'),
    ("DeleteMessage", b'{"QueueUrl": "QUEUE", "ReceiptHandle": ""}'),
    ("DeleteMessage", '{"QueueUrl": "QUEUE", "ReceiptHandle": "ü"}'.encode()),
    ("DeleteMessage", b'{"QueueUrl": "QUEUE", "ReceiptHandle": "b3JkZXJzLzAvYQ=="}'),
    ("DeleteMessage", b'{"QueueUrl": "QUEUE", "ReceiptHandle": "b3JkZXJzLzkvAA=="}'),
    ("CreateQueue", b'{"QueueName": "a/b"}'),
    ("CreateQueue", b'{"QueueName": " sqs.queues"}'),
    ("CreateQueue", b'{"QueueName": "a", "Attributes": {"RedrivePolicy": "[[["}}'),
    (
        "CreateQueue",
        b'{"QueueName": "a", "Attributes": {"RedrivePolicy": "{\\"deadLetterTargetArn\\": 7, \\"maxReceiveCount\\": 1e400}"}}',
    ),
    ("ListQueues", b'{"NextToken": "\\u00fc"}'),
    ("GetQueueAttributes", b'{"QueueUrl": "QUEUE", "AttributeNames": ["\\u0000"]}'),
    ("Nothing", b"{}"),
    ("", b"{}"),
]


@pytest.mark.parametrize("second", ["AmazonSQS.PurgeQueue", "AmazonSQS.GetQueueUrl"])
def test_two_targets_are_refused(queue: str, running_service: RunningService, second: str) -> None:
    """A proxy may have permitted the other one."""
    headers = [*JSON.items(), ("x-amz-target", "AmazonSQS.GetQueueUrl"), ("X-Amz-Target", second)]
    answer = httpx.post(f"{running_service.url}/sqs/", headers=headers, json={"QueueName": queue.rpartition("/")[2]})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert "X-Amz-Target is given twice" in answer.text


@pytest.mark.parametrize(("operation", "body"), HOSTILE)
def test_hostile_json_is_refused_in_awss_form(
    queue: str, running_service: RunningService, operation: str, body: bytes
) -> None:
    headers = {**JSON, "x-amz-target": f"AmazonSQS.{operation}"}
    answer = httpx.post(f"{running_service.url}/sqs/", content=body.replace(b"QUEUE", queue.encode()), headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["__type"].startswith("com.amazonaws.sqs#")
    assert answer.json()["message"]
    assert answer.headers["x-amzn-query-error"].endswith(";Sender")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"Action",
        b"Action.1=x",
        b"Action=SendMessage&QueueUrl.1=x",
        b"Action=SendMessage&A=1&A.B=2",
        b"Action=SendMessage&" + b".".join([b"a"] * 5000) + b"=1",
        b"&".join(b"a%d=1" % at for at in range(6000)),
        b"Action=SendMessage&QueueUrl=QUEUE&MessageBody=x&DelaySeconds=soon",
        b"Action=ReceiveMessage&QueueUrl=QUEUE&AttributeName.x=All&MaxNumberOfMessages=0",
    ],
)
def test_hostile_forms_are_refused_in_awss_form(queue: str, running_service: RunningService, body: bytes) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{running_service.url}/sqs/", content=body.replace(b"QUEUE", queue.encode()), headers=headers)
    assert answer.status_code == 400, answer.text
    parsed = botocore.parsers.create_parser("query").parse(
        {"body": answer.content, "headers": answer.headers, "status_code": 400}, None
    )
    assert parsed["Error"]["Code"]
    assert parsed["Error"]["Type"] == "Sender"


@pytest.mark.parametrize("kind", ["application/x-amz-json-1.0", "application/x-www-form-urlencoded"])
def test_another_charset_than_utf_8_is_refused_in_awss_form(running_service: RunningService, kind: str) -> None:
    headers = {"content-type": f"{kind}; charset=latin-1"}
    if "json" in kind:
        headers["x-amz-target"] = "AmazonSQS.ListQueues"
    answer = httpx.post(f"{running_service.url}/sqs/", content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert (
        "its charset is &#x27;latin-1&#x27;; send UTF-8" in answer.text
        or "its charset is 'latin-1'; send UTF-8" in answer.text
    )


def test_a_web_page_of_another_origin_is_refused(running_service: RunningService) -> None:
    headers = {**JSON, "x-amz-target": "AmazonSQS.ListQueues", "origin": "http://elsewhere.example"}
    assert httpx.post(f"{running_service.url}/sqs/", content=b"{}", headers=headers).status_code == 403
