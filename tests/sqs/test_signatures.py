"""Signatures: AWS's published test vectors, and boto3 with the keys of a token."""

from __future__ import annotations

import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from service.running_service import RunningService
from sqs.conftest import boto
from sqs.test_operations import receive, refused
from tarry.programs.sqs import signature
from tarry.programs.sqs.faults import SqsError
from tarry.verbs import tokens
from tarry.verbs.codecs import JSON
from until import LONGEST_S, until
from walked import cases

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEY = f"AWS4{SECRET}".encode()
STAMP = "20150830T123600Z"
FORM = {b"content-type": b"application/x-www-form-urlencoded"}
TRIMMED = {b"my-header1": b" value1", b"my-header2": b' "a   b   c"'}
VECTORS = [
    ("GET", "", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("POST", "", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "GET",
        "Param2=value2&Param1=value1",
        {},
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    ("GET", "", TRIMMED, b"", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
    ("POST", "", FORM, b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
]


FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}
NOW = 1440938160.0


def signed(headers: dict[bytes, bytes], digest: str, scope: str = "20150830/us-east-1/service") -> signature.Signature:
    names = ";".join(sorted(name.decode() for name in headers))
    credential = f"Credential=AKIDEXAMPLE/{scope}/aws4_request"
    return signature.parse(f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={digest}")


@pytest.mark.parametrize(("method", "query", "headers", "body", "digest"), VECTORS)
def test_awss_vectors(method: str, query: str, headers: dict[bytes, bytes], body: bytes, digest: str) -> None:
    given = {b"host": b"example.amazonaws.com", b"x-amz-date": STAMP.encode(), **headers}
    request = signature.SignedRequest(method, "/", query, given, body)
    signature.check(signed(given, digest), request, KEY)
    for wrong in (signed(given, "0" * 64), signed(given, "ü")):
        with pytest.raises(SqsError, match="does not match"):
            signature.check(wrong, request, KEY)
    other = signature.SignedRequest(method, "/", query, given, body + b"x")
    with pytest.raises(SqsError, match="does not match"):
        signature.check(signed(given, digest), other, KEY)


SQS = "20150830/moon/sqs"
HEAD = {b"host": b"example.amazonaws.com", b"x-amz-date": STAMP.encode()}


@cases(
    ("scope", "headers", "late", "told"),
    [
        (SQS, {}, 901.0, "expired"),
        (SQS, {}, -901.0, "expired"),
        ("20150830/moon/s3", {}, 0.0, "correct service: 'sqs'"),
        ("20150829/moon/sqs", {}, 0.0, "does not match YYYYMMDD"),
        ("2015083/moon/sqs", {}, 0.0, "does not match YYYYMMDD"),
        ("/moon/sqs", {}, 0.0, "does not match YYYYMMDD"),
        (SQS, {b"x-amz-date": b"yesterday"}, 0.0, "Got 'yesterday'"),
        (SQS, {b"x-amz-target": b"AmazonSQS.PurgeQueue"}, 0.0, "must be a signed header"),
    ],
)
def test_a_head_is_refused_by_itself(scope: str, headers: dict[bytes, bytes], late: float, told: str) -> None:
    signature.check_scope(signed(HEAD, "", SQS), HEAD, NOW)
    with pytest.raises(SqsError, match=told):
        signature.check_scope(signed(HEAD, "", scope), {**HEAD, **headers}, NOW + late)


def test_a_header_is_signed_once() -> None:
    credential = f"Credential=AKIDEXAMPLE/{SQS}/aws4_request"
    with pytest.raises(SqsError, match="names a header twice"):
        signature.parse(f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host;host;x-amz-date, Signature=0")


@pytest.mark.parametrize("comes", [False, True])
def test_a_receiver_that_waits_gets_nothing_when_its_token_is_revoked(
    sqs: Any, queue: str, running_service: RunningService, namespace: str, comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by itself; also if a message ``comes`` before the next look at the tokens."""
    client = running_service.app.clients[namespace]
    text, id, record = tokens.create_token(os.urandom, ("consume",), sqs=True)
    running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
    running_service.call(running_service.app.require_tokens, True)
    revoked = boto(running_service.url, id, tokens.sqs_secret_key(text))
    assert receive(revoked, queue, WaitTimeSeconds=0) == [], "the service knows the token"
    until(lambda: not running_service.app.held_requests, "the end of earlier requests")
    if comes:
        running_service.stop_looking(monkeypatch)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(receive, revoked, queue, WaitTimeSeconds=20)
        until(lambda: running_service.app.held_requests)
        running_service.run(client.engine.run(tokens.delete_token(namespace, id)))

        async def known() -> bool:
            return await running_service.app.authorizer.find_credential(id) is not None

        until(lambda: not running_service.run(known()))
        topic = running_service.app.clients.topic(namespace, "orders")
        if comes:
            assert not waiting.done()
            running_service.run(topic.add((b'"tea"', JSON), id="tea"))
        with pytest.raises(revoked.exceptions.ClientError, match="InvalidClientTokenId"):
            waiting.result(LONGEST_S)
    if comes:
        job = running_service.run(topic.get("tea"))
        assert (job.state, job.attempts) == ("ready", 0)
    revoked.close()


def test_a_tokens_id_and_derived_key_sign_requests(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    client, keys = running_service.app.clients[namespace], {}
    for scope in tokens.SCOPES:
        text, id, record = tokens.create_token(os.urandom, (scope,), sqs=True)
        running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
        keys[scope] = boto(running_service.url, id, tokens.sqs_secret_key(text))
    running_service.call(running_service.app.require_tokens, True)
    keys["produce"].send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(keys["consume"], queue)
    keys["consume"].delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert keys["view"].list_queues()["QueueUrls"] == [queue]
    keys["admin"].purge_queue(QueueUrl=queue)
    assert refused(keys["view"].send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"
    assert refused(keys["produce"].receive_message, QueueUrl=queue) == "AccessDenied"
    assert refused(keys["consume"].purge_queue, QueueUrl=queue) == "AccessDenied"
    assert refused(sqs.send_message, QueueUrl=queue, MessageBody="x") == "InvalidClientTokenId"
    keys["wrong"] = boto(running_service.url, id, "f" * 64)
    assert refused(keys["wrong"].list_queues) == "SignatureDoesNotMatch"
    elsewhere = queue.replace(namespace, "elsewhere")
    assert refused(keys["admin"].purge_queue, QueueUrl=elsewhere) == "AWS.SimpleQueueService.NonExistentQueue"
    running_service.run(client.engine.run(tokens.delete_token(namespace, id)))

    def code() -> str | None:
        try:
            keys["admin"].list_queues()
        except keys["admin"].exceptions.ClientError as fault:
            return str(fault.response["Error"]["Code"])
        return None

    assert until(code, "the revoked token is refused") == "InvalidClientTokenId"
    for made in keys.values():
        made.close()


def test_a_request_is_refused_before_the_first_byte_of_its_body(
    queue: str, running_service: RunningService, namespace: str
) -> None:
    """Only the head is sent: an answer shows that no byte of the body was waited for."""
    client, ids = running_service.app.clients[namespace], {}
    for scope in ("produce", "consume"):
        _, ids[scope], record = tokens.create_token(os.urandom, (scope,), sqs=True)
        running_service.run(client.engine.run(tokens.store_token(namespace, ids[scope], record)))
    running_service.call(running_service.app.require_tokens, True)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")

    def code(credential: str | None, *, date: str = stamp, target: str = "x-amz-target") -> tuple[int, str]:
        names = f"host;x-amz-date{';x-amz-target' if target else ''}"
        head = {"host": "localhost", "content-length": str(8 << 20), "x-amz-date": date}
        head |= {target: "AmazonSQS.SendMessage"} if target else {}
        if credential is not None:
            digest = f"Credential={credential}, SignedHeaders={names}, Signature={'0' * 64}"
            head["authorization"] = f"AWS4-HMAC-SHA256 {digest}"
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        with socket.create_connection(("127.0.0.1", running_service.port), LONGEST_S) as sent:
            sent.sendall(f"POST /sqs HTTP/1.1\r\n{lines}\r\n".encode())
            answer = HTTPResponse(sent)
            answer.begin()
            text = answer.read().decode()
        found = re.search("sqs#(\\w+)|<Code>([\\w.]+)", text)
        assert found is not None, text
        return answer.status, found[1] or found[2]

    def credential(scope: str, *, day: str = stamp[:8], service: str = "sqs") -> str:
        return f"{ids.get(scope, scope)}/{day}/moon/{service}/aws4_request"

    assert code(None) == (403, "MissingAuthenticationToken")
    assert code(None, target="") == (403, "MissingAuthenticationToken"), "a form"
    assert code("x") == (400, "IncompleteSignature")
    assert code(credential("nobody")) == (403, "InvalidClientTokenId")
    assert code(credential("nobody"), target="") == (403, "InvalidClientTokenId")
    assert code(credential("produce", service="s3")) == (403, "SignatureDoesNotMatch")
    assert code(credential("produce", service="s3"), target="") == (403, "SignatureDoesNotMatch")
    assert code(credential("produce", day="20150830")) == (403, "SignatureDoesNotMatch")
    assert code(credential("produce", day="20150830"), date=STAMP) == (403, "SignatureDoesNotMatch")
    assert code(credential("consume")) == (403, "AccessDenied")
    with socket.create_connection(("127.0.0.1", running_service.port), LONGEST_S) as whole:
        digest = f"Credential={credential('produce')}, SignedHeaders=host;x-amz-date;x-amz-target, Signature={'0' * 64}"
        head = (
            f"POST /sqs HTTP/1.1\r\nHost: localhost\r\nX-Amz-Date: {stamp}\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
        )
        whole.sendall(f"{head}Authorization: AWS4-HMAC-SHA256 {digest}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert b"403" in whole.recv(1000).partition(b"\r\n")[0], "a wrong signature is seen with the body"


def test_a_stored_hash_signs_nothing_and_a_token_not_made_for_sqs_neither(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    client = running_service.app.clients[namespace]
    for made_for_sqs in (True, False):
        text, id, record = tokens.create_token(os.urandom, ("admin",), sqs=made_for_sqs)
        running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
        running_service.call(running_service.app.require_tokens, True)
        secret = tokens.sqs_secret_key(text)
        assert secret not in (record.hash, record.sqs)
        for stored in (record.hash, record.sqs or "x", text, text.rpartition("_")[2]):
            thief = boto(running_service.url, id, stored)
            assert refused(thief.purge_queue, QueueUrl=queue) in ("SignatureDoesNotMatch", "InvalidClientTokenId")
            thief.close()
        if not made_for_sqs:
            assert record.sqs == ""
            assert refused(boto(running_service.url, id, secret).list_queues) == "InvalidClientTokenId"


@pytest.mark.parametrize("named", ["", "a-call"], ids=["plain", "an invocation that is not signed"])
def test_a_message_that_is_sent_again_with_the_same_signature_is_one(
    sqs: Any, queue: str, running_service: RunningService, namespace: str, named: str
) -> None:
    client = running_service.app.clients[namespace]
    text, id, record = tokens.create_token(os.urandom, ("produce",), sqs=True)
    running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
    running_service.call(running_service.app.require_tokens, True)
    body = f"Action=SendMessage&MessageBody=hi&QueueUrl={queue}".encode()
    request = AWSRequest("POST", f"{running_service.url}/sqs", data=body, headers=dict(FORM_TYPE))
    SigV4Auth(Credentials(id, tokens.sqs_secret_key(text)), "sqs", "eu-central-1").add_auth(request)
    sent = request.prepare()
    for number in range(5):
        more = {"amz-sdk-invocation-id": f"{named}{number}"} if named else {}
        answer = httpx.post(sent.url, content=sent.body, headers={**dict(sent.headers.items()), **more})
        assert answer.status_code == 200, answer.text
    stats = running_service.run(client.topic("orders").stats())
    assert stats.ready == 1


def test_calls_with_one_name_are_one_only_if_key_and_message_are_the_same(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    """The name of a call is the client's; two clients, or a bad one, may give the same."""
    client = running_service.app.clients[namespace]
    made = [tokens.create_token(os.urandom, ("produce",), sqs=True) for _ in range(2)]
    for _, id, record in made:
        running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
    running_service.call(running_service.app.require_tokens, True)
    attribute = {"a": {"DataType": "String", "StringValue": "x"}}
    parameters: list[dict[str, Any]] = [
        {},
        {"DelaySeconds": 60},
        {"MessageAttributes": attribute},
        {"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}},
        {"MessageGroupId": "g"},
    ]
    ids = set[str]()
    for text, id, _ in made:
        for given in parameters:
            body = json.dumps({"QueueUrl": queue, "MessageBody": "hi", **given})
            headers = {
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": "AmazonSQS.SendMessage",
                "amz-sdk-invocation-id": "one",
            }
            for again in ("1", "2"):
                headers["amz-sdk-request"] = f"attempt={again}"
                request = AWSRequest("POST", f"{running_service.url}/sqs", data=body, headers=headers)
                SigV4Auth(Credentials(id, tokens.sqs_secret_key(text)), "sqs", "eu-central-1").add_auth(request)
                sent = request.prepare()
                answer = httpx.post(sent.url, content=sent.body, headers=dict(sent.headers.items()))
                assert answer.status_code == 200, answer.text
                ids.add(answer.json()["MessageId"])
    stats = running_service.run(client.topic("orders").stats())
    assert (len(ids), stats.ready + stats.delayed) == (10, 10)
