"""The limits of a request: its size on the wire and decoded, its values, how many large ones at a time; and how it is read."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from service.running_service import RunningService
from sqs.conftest import boto
from tarry.programs.sqs import limits, query_protocol
from tarry.programs.sqs.faults import SqsError
from tarry.programs.sqs.routes import _parse_json
from tarry.verbs import tokens
from until import until

MIB = 1 << 20
FORM = {
    "escapes": b"Action=a&a=" + b"%41" * (MIB + 1000),
    "UTF-8": b"Action=a&a=" + b"%C4%80" * 500_000,
    "many fields": b"Action=x&" + b"&".join(b"a%d=%s" % (i, b"%41" * 200) for i in range(4998)),
    "many parts": b"Action=x&" + b"&".join(b"a%d.b.c.d.e.f.g=1" % i for i in range(4998)),
}
JSON = {
    "escapes": b'{"a":"' + b"\\u0041" * (MIB + 1000) + b'"}',
    "surrogates": b'{"a":"' + b"\\ud83d\\ude00" * 540_000 + b'"}',
    "quotes": b'{"a":"' + b'\\"' * MIB + b'"}',
    "backslashes": b'{"a":"' + b"\\\\" * MIB + b'"}',
    "values": b'{"a":[' + b"[]," * 21_000 + b"[]]}",
    "texts": b'{"a":[' + b'"a",' * 4_000 + b'"a"]}',
}
# Made when they are sent, not in each process that collects this file: the keys alone take a tenth of a second.
REFUSED_FORM: dict[str, Callable[[], bytes]] = {
    "decoded": lambda: b"a=" + b"%41" * 2_200_000,
    "fields": lambda: b"Action=a" + b"&" * 3_000_000,
    "a name of dots": lambda: b"Action=a&" + b"a." * 500_000 + b"=1",
    "dots in UTF-8": lambda: ("Ā." * 300_000).encode() + b"=1",
}
REFUSED_JSON: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b'{"a":[' + b"[]," * 2_000_000 + b"[]]}",
    "nested": lambda: b'{"a":' + b"[" * 3_000_000 + b"]" * 3_000_000 + b"}",
    "keys": lambda: b"{" + b",".join(b'"%d":1' % i for i in range(500_000)) + b"}",
    "decoded": lambda: b'{"a":"' + b"x" * 2_000_000 + b'"}',
    "escaped": lambda: b'{"a":"' + b'\\"' * 3_000_000 + b'"}',
}


def turns(work: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How often the event loop ran anything else during a piece of work, and its result."""
    count = 0

    async def other() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    async def both() -> Any:
        task = asyncio.ensure_future(other())
        try:
            return await work
        finally:
            task.cancel()

    found = asyncio.run(both())
    return count, found


@pytest.mark.parametrize("body", FORM.values(), ids=FORM)
def test_a_large_form_is_read_in_steps(body: bytes) -> None:
    count, (action, _) = turns(query_protocol.parse(body))
    assert action in ("a", "x")
    assert count >= len(body) // (6 * limits.STEP)


@pytest.mark.parametrize("body", JSON.values(), ids=JSON)
def test_large_json_is_read_in_steps(body: bytes) -> None:
    count, found = turns(_parse_json(body))
    assert found == json.loads(body)
    assert count >= len(body) // limits.LARGE_STEP


@pytest.mark.parametrize("make", REFUSED_FORM.values(), ids=REFUSED_FORM)
def test_a_form_with_too_much_in_it_is_refused_before_it_is_decoded(make: Callable[[], bytes]) -> None:
    with pytest.raises(SqsError):
        asyncio.run(query_protocol.parse(make()))


@pytest.mark.parametrize("make", REFUSED_JSON.values(), ids=REFUSED_JSON)
def test_json_with_too_much_in_it_is_refused_before_it_is_decoded(make: Callable[[], bytes]) -> None:
    with pytest.raises(SqsError):
        asyncio.run(limits.check_json(make()))


def test_an_escape_that_is_cut_by_a_step_stays_whole() -> None:
    for before in range(limits.STEP - 4, limits.STEP + 4):
        text = "x" * before + "Ä+ %" * 3
        encoded = text.replace("%", "%25").replace("+", "%2B").replace(" ", "+").replace("Ä", "%C3%84").encode()
        _, found = asyncio.run(query_protocol.parse(b"Action=a&b=" + encoded))
        assert found == {"b": text}
    for before in range(limits.LARGE_STEP - 12, limits.LARGE_STEP + 4):
        value = {"a": "x" * before + '\\"\\\\"' * 4, "b": '"'}
        assert asyncio.run(_parse_json(json.dumps(value).encode())) == value


@pytest.mark.parametrize("headers", [{"x-amz-target": "AmazonSQS.ListQueues"}, {}], ids=["json", "form"])
def test_a_body_beyond_the_limit_is_refused_by_its_length(
    running_service: RunningService, headers: dict[str, str]
) -> None:
    body = b" " * (limits.MOST_ON_THE_WIRE + 1)
    assert httpx.post(f"{running_service.url}/sqs", content=body, headers=headers).status_code in (400, 413)


def test_a_message_of_a_mebibyte_is_taken(sqs: Any) -> None:
    queue = sqs.create_queue(QueueName="large", Attributes={"MaximumMessageSize": str(MIB)})["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="é" * (MIB // 2 - 1))  # 3 MiB on the wire
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "é" * (MIB // 2 - 1)


@pytest.mark.parametrize("size", [MIB + 1, 2 * MIB])
def test_a_message_beyond_a_mebibyte_is_refused_in_awss_words(sqs: Any, size: int) -> None:
    """Also one that is refused before it is decoded."""
    queue = sqs.create_queue(QueueName="large")["QueueUrl"]
    with pytest.raises(ClientError) as refused:
        sqs.send_message(QueueUrl=queue, MessageBody="x" * size)
    error = refused.value.response["Error"]
    assert error["Code"] == "InvalidParameterValue"
    assert error["Message"].endswith("Reason: Message must be shorter than 1048576 bytes.")


@pytest.mark.parametrize(("size", "sent"), [(MIB // 2 + 1, "1048578"), (MIB, "at least ")])
def test_a_batch_beyond_a_mebibyte_is_refused_in_awss_words(sqs: Any, size: int, sent: str) -> None:
    """The second one is refused while it is read."""
    queue = sqs.create_queue(QueueName="large")["QueueUrl"]
    with pytest.raises(ClientError) as refused:
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": id, "MessageBody": "x" * size} for id in "ab"])
    error = refused.value.response["Error"]
    assert error["Code"] == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert error["Message"].startswith("Batch requests cannot be longer than 1048576 bytes. You have sent " + sent)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("SendMessage", "InvalidParameterValue"),
        ("SendMessageBatch", "BatchRequestTooLong"),
        ("ListQueues", "RequestEntityTooLarge"),
    ],
)
def test_a_form_beyond_a_mebibyte_is_refused_in_awss_words(action: str, code: str) -> None:
    with pytest.raises(SqsError) as refused:
        asyncio.run(
            query_protocol.parse(b"Version=2012-11-05&Action=%s&MessageBody=" % action.encode() + b"x" * 2 * MIB)
        )
    assert refused.value.name == code


def test_more_than_eight_large_requests_at_a_time_are_told_to_try_again(running_service: RunningService) -> None:
    large = running_service.call(running_service.app.shared_part, limits.LargeRequests)
    large.counts[""] = limits.MOST_LARGE
    url = f"{running_service.url}/sqs"
    body = b'{"a":"' + b"x" * limits.LARGE + b'"}'
    headers = {"x-amz-target": "AmazonSQS.ListQueues"}
    assert httpx.post(url, content=body, headers=headers).status_code == 503
    assert httpx.post(url, content=b"{}", headers=headers).status_code == 200
    large.counts[""] = limits.MOST_LARGE - 1
    assert httpx.post(url, content=body, headers=headers).status_code == 200
    assert large.counts[""] == limits.MOST_LARGE - 1


def test_a_stranger_who_knows_the_id_of_a_key_blocks_no_other_key(
    sqs: Any, running_service: RunningService, namespace: str
) -> None:
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    client = running_service.app.clients[namespace]
    known, other = (tokens.create_token(os.urandom, ("produce",), sqs=True) for _ in range(2))
    for _, id, record in (known, other):
        running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
    running_service.call(running_service.app.require_tokens, True)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    credential = f"Credential={known[1]}/{stamp[:8]}/moon/sqs/aws4_request"
    head = (
        f"POST /sqs HTTP/1.1\r\nHost: localhost\r\nX-Amz-Date: {stamp}\r\nContent-Length: 1000000\r\n"
        f"Authorization: AWS4-HMAC-SHA256 {credential}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}\r\n\r\n"
    )
    large = running_service.call(running_service.app.shared_part, limits.LargeRequests)
    with ExitStack() as lines:
        for _ in range(limits.MOST_LARGE):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", running_service.port)))
            line.sendall(head.encode())
        until(lambda: large.counts[known[1]] == limits.MOST_LARGE)
        theirs = boto(running_service.url, other[1], tokens.sqs_secret_key(other[0]))
        theirs.send_message(QueueUrl=queue, MessageBody="x" * 600_000)
        theirs.close()
    until(lambda: not large.counts)
