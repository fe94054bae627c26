"""The route of the dialect: finds the protocol, the caller and the operation of a request, and answers in the same protocol."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec

from tarry.internal import JSON_FAULTS
from tarry.programs.serving.connection_limits import connection_of
from tarry.programs.serving.request import ClientGone
from tarry.programs.serving.responses import PlainResponse, Response
from tarry.programs.serving.router import RouteTable
from tarry.programs.sqs import limits, query_protocol, signature
from tarry.programs.sqs.faults import SqsError, fault_of, unknown_queue
from tarry.programs.sqs.operations import OPERATIONS, ROOT, UNSUPPORTED, Call
from tarry.wire.endpoint import ANY_SCOPE, NO_TOKEN

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential
    from tarry.programs.serving.request import ServiceRequest

REGION = "us-east-1"
"""The region in ARNs where no signature names one."""
TARGET = b"x-amz-target"
SERVICE = "AmazonSQS"
INVOCATION = "amz-sdk-invocation-id"
"""The header that names a call of an SDK: the same in each of its tries."""


class QueryParts(msgspec.Struct):
    """The query, which is ignored."""


async def call(request: ServiceRequest) -> Response:
    """Amazon SQS: one operation, which the header X-Amz-Target names, or the parameter Action of a form."""
    request_id, as_json, action = str(uuid4()), TARGET in request.headers, ""
    try:
        caller = await _identify(request)
        if as_json:
            action = _target(request)
            _check_operation(request, caller, action)
        large = request.app.shared_part(limits.LargeRequests)
        with large.one(caller.signature.access_key if caller else "", request.headers.get(b"content-length")):
            body = await request.read(limits.MOST_ON_THE_WIRE)
            if caller is not None:
                await _check_signature(request, caller, body)
            request.check_charset()
            if as_json:
                given = await _parse_json(body, action)
            else:
                action, given = await query_protocol.parse(body)
        if not as_json:
            _check_operation(request, caller, action)
        answer = await _perform(request, caller, action, given, strings_only=not as_json)
    except ClientGone:
        raise
    except Exception as raised:  # noqa: BLE001  # the client gets an error of AWS for any exception
        return _error(fault_of(raised), request_id, as_json=as_json)
    if as_json:
        kept = {name: value for name, value in answer.items() if value or name != "Failed"}
        return _response(msgspec.json.encode(kept), 200, request_id, as_json=True)
    return _response(query_protocol.answer(action, answer, request_id), 200, request_id, as_json=False)


class SignedCaller(NamedTuple):
    """The caller that a head names; its signature is checked with the body."""

    credential: Credential
    signature: signature.Signature


async def _identify(request: ServiceRequest) -> SignedCaller | None:
    """Finds the caller by the head alone: a known key, this service, today's date. ``None`` where no tokens are required."""
    authorizer = request.app.authorizer
    await authorizer.detect_first_token()
    if not authorizer.settings.tokens:
        return None
    signed = signature.parse(request.headers.get(b"authorization", b"").decode("latin-1"))
    found = await authorizer.find_credential(signed.access_key)
    if found is None:
        raise SqsError("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
    if not found.token.record.sqs:
        told = "This token was not created for SQS; create one with `tarry token create --sqs`."
        raise SqsError("InvalidClientTokenId", told, 403)
    signature.check_scope(signed, request.headers, time.time())
    return SignedCaller(found, signed)


def _target(request: ServiceRequest) -> str:
    service, _, action = request.headers[TARGET].decode("latin-1").partition(".")
    return action if service == SERVICE else ""


def _check_operation(request: ServiceRequest, caller: SignedCaller | None, action: str) -> None:
    """Raises ``SqsError`` for an unknown operation, and ``Forbidden`` if the caller's token has none of its scopes."""
    if action not in OPERATIONS and action not in UNSUPPORTED:
        raise SqsError("InvalidAction", f"The action {action[:80]} is not valid for this endpoint.")
    if caller is not None:
        scopes = OPERATIONS[action][2] if action in OPERATIONS else ANY_SCOPE
        request.app.authorizer.check_scopes(caller.credential, scopes)


async def _check_signature(request: ServiceRequest, caller: SignedCaller, body: bytes) -> None:
    """Checks the signature, and takes the namespace of its token."""
    scope, found = request.scope, caller.credential
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else scope["path"]
    sent = signature.SignedRequest(
        scope["method"], path, scope["query_string"].decode("latin-1"), request.headers, body
    )
    key = bytes.fromhex(found.token.record.sqs)
    if len(body) > limits.LARGE:  # a hash of a large body runs beside the event loop
        await asyncio.to_thread(signature.check, caller.signature, sent, key)
    else:
        signature.check(caller.signature, sent, key)
    await request.app.authorizer.check_again(found)  # the body may have taken its time
    request.app.authorizer.count_call(found)
    request.namespace, request.credential = found.namespace, found


async def _perform(
    request: ServiceRequest, caller: SignedCaller | None, action: str, given: dict[str, Any], *, strings_only: bool
) -> Any:
    connection_of(request.scope).authorize(request.credential)
    if action in UNSUPPORTED:
        raise SqsError("UnsupportedOperation", f"{action} is not supported by this service.")
    handler, model, _ = OPERATIONS[action]
    account = request.path.get("account")
    if account is not None:
        given.setdefault("QueueUrl", f"{ROOT}/{account}/{request.path['queue']}")
    if caller is None:
        request.namespace = _namespace(given) or request.namespace
        if request.namespace not in request.app.clients.namespaces:
            raise unknown_queue()
    operation_call = Call(request, _region(request, caller), _identity(request, caller), strings_only=strings_only)
    return await handler(operation_call, operation_call.parse(model, given))


def _region(request: ServiceRequest, caller: SignedCaller | None) -> str:
    """The region that the signature names, also one that is not checked."""
    if caller is not None:
        return caller.signature.region or REGION
    try:
        return signature.parse(request.headers.get(b"authorization", b"").decode("latin-1")).region or REGION
    except SqsError:
        return REGION


def _identity(request: ServiceRequest, caller: SignedCaller | None) -> bytes:
    """The key, and the SDK's name of the call, where it is signed; else the signature, because nobody can repeat a signed request under another
    one, and no other key names its calls."""
    call = b" ".join(request.headers.get(INVOCATION.encode(), b"").split())
    if caller is None:
        return call
    is_named = INVOCATION in caller.signature.signed_headers
    return f"{caller.signature.access_key} ".encode() + (call if is_named else caller.signature.digest.encode())


def _namespace(given: dict[str, Any]) -> str:
    """The namespace that the queue's URL names, its account."""
    try:
        parts = urlsplit(str(given.get("QueueUrl", ""))).path.rstrip("/").split("/")
    except ValueError:
        return ""
    return unquote(parts[-2]) if len(parts) > 2 else ""


async def _parse_json(body: bytes, action: str = "") -> dict[str, Any]:
    await limits.check_json(body, action)
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except JSON_FAULTS:
        raise SqsError("SerializationException", "The request is not a JSON object.") from None


def _error(fault: SqsError, request_id: str, *, as_json: bool) -> Response:
    if not as_json:
        return _response(query_protocol.error(fault, request_id), fault.status, request_id, as_json=False)
    told = {"__type": f"com.amazonaws.sqs#{fault.name}", "message": fault.message}
    query_error = (b"x-amzn-query-error", f"{fault.code};{fault.kind}".encode())
    return _response(msgspec.json.encode(told), fault.status, request_id, query_error, as_json=True)


def _response(body: bytes, status: int, request_id: str, *headers: tuple[bytes, bytes], as_json: bool) -> Response:
    media = "application/x-amz-json-1.0" if as_json else "text/xml"
    return Response(PlainResponse(body, media), status, ((b"x-amzn-requestid", request_id.encode()), *headers))


def routes_of() -> RouteTable:
    """The routes: clients send to the endpoint or to the queue's URL; Celery's transport leaves out the endpoint's path."""
    table = RouteTable("sqs")
    for path in ("/", ROOT, f"{ROOT}/", ROOT + "/{account}/{queue}"):
        table.route(
            "POST", path, scopes=NO_TOKEN, reads_body=True, query_model=QueryParts, returns=bytes, namespaced=False
        )(call)
    return table
