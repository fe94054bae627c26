"""Signatures: AWS's published test vectors, and boto3 with the keys of a token."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.running_service import RunningService
from sqs.conftest import boto
from sqs.test_operations import receive, refused
from tarry.programs.sqs import signature
from tarry.programs.sqs.faults import SqsError
from tarry.verbs import tokens
from tarry.verbs.codecs import JSON
from until import LONGEST_S, until

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
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


def signed(headers: dict[bytes, bytes], digest: str) -> signature.Signature:
    names = ";".join(sorted(name.decode() for name in headers))
    credential = "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
    return signature.parse(f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={digest}")


@pytest.mark.parametrize(("method", "query", "headers", "body", "digest"), VECTORS)
def test_awss_vectors(method: str, query: str, headers: dict[bytes, bytes], body: bytes, digest: str) -> None:
    given = {b"host": b"example.amazonaws.com", b"x-amz-date": STAMP.encode(), **headers}
    request = signature.SignedRequest(method, "/", query, given, body)
    now = 1440938160.0
    signature.check(signed(given, digest), request, SECRET, now)
    for late in (-901.0, 901.0):
        with pytest.raises(SqsError, match="expired"):
            signature.check(signed(given, digest), request, SECRET, now + late)
    for wrong in (signed(given, "0" * 64), signed(given, "ü")):
        with pytest.raises(SqsError, match="does not match"):
            signature.check(wrong, request, SECRET, now)
    other = signature.SignedRequest(method, "/", query, given, body + b"x")
    with pytest.raises(SqsError, match="does not match"):
        signature.check(signed(given, digest), other, SECRET, now)


def test_the_operation_must_be_signed() -> None:
    given = {b"host": b"example.amazonaws.com", b"x-amz-date": STAMP.encode()}
    sent = {**given, b"x-amz-target": b"AmazonSQS.PurgeQueue"}
    request = signature.SignedRequest("POST", "/", "", sent, b"")
    digest = signature.sign(signed(given, ""), STAMP, request, SECRET)
    with pytest.raises(SqsError, match="X-Amz-Target"):
        signature.check(signed(given, digest), request, SECRET, 1440938160.0)


def test_a_receiver_that_waits_gets_nothing_when_its_token_is_revoked(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    client = running_service.app.clients[namespace]
    _, id, record = tokens.create_token(os.urandom, ("consume",))
    running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
    running_service.call(running_service.app.require_tokens, True)
    revoked = boto(running_service.url, id, record.hash)
    assert receive(revoked, queue, WaitTimeSeconds=0) == [], "the service knows the token"
    until(lambda: not running_service.app.held_requests, "the end of earlier requests")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(receive, revoked, queue, WaitTimeSeconds=20)
        until(lambda: running_service.app.held_requests)
        running_service.run(client.engine.run(tokens.delete_token(namespace, id)))

        async def known() -> bool:
            return await running_service.app.authorizer.find_credential(id) is not None

        until(lambda: not running_service.run(known()))
        assert not waiting.done()
        topic = running_service.app.clients.topic(namespace, "orders")
        running_service.run(topic.add((b'"tea"', JSON), id="tea"))
        with pytest.raises(revoked.exceptions.ClientError, match="InvalidClientTokenId"):
            waiting.result(LONGEST_S)
    job = running_service.run(topic.get("tea"))
    assert (job.state, job.attempts) == ("ready", 0)
    revoked.close()


def test_a_tokens_id_and_hash_sign_requests(
    sqs: Any, queue: str, running_service: RunningService, namespace: str
) -> None:
    client, keys = running_service.app.clients[namespace], {}
    for scope in tokens.SCOPES:
        _, id, record = tokens.create_token(os.urandom, (scope,))
        running_service.run(client.engine.run(tokens.store_token(namespace, id, record)))
        keys[scope] = boto(running_service.url, id, record.hash)
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
