"""The route of the dialect: finds the protocol, the caller and the operation of a request, and answers in the same protocol."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec

from tarry.programs.service.request import ClientGone
from tarry.programs.service.responses import PlainResponse, Response
from tarry.programs.service.router import RouteTable
from tarry.programs.sqs import query_protocol, signature
from tarry.programs.sqs.faults import SqsError, fault_of, unknown_queue
from tarry.programs.sqs.operations import OPERATIONS, ROOT, UNSUPPORTED, Call
from tarry.wire.endpoint import NO_TOKEN, Scope

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

REGION = "us-east-1"
"""The region in ARNs where no signature names one."""
TARGET = b"x-amz-target"
SERVICE = "AmazonSQS"


class QueryParts(msgspec.Struct):
    """The query, which is ignored."""


async def call(request: ServiceRequest) -> Response:
    """Amazon SQS: one operation, which the header X-Amz-Target names, or the parameter Action of a form."""
    request_id, as_json, action = str(uuid4()), TARGET in request.headers, ""
    try:
        body = await request.read()
        if as_json:
            service, _, action = request.headers[TARGET].decode("latin-1").partition(".")
            given = _parse_json(body) if service == SERVICE else None
        else:
            action, given = query_protocol.parse(body)
        if given is None or (action not in OPERATIONS and action not in UNSUPPORTED):
            raise SqsError("InvalidAction", f"The action {action[:80]} is not valid for this endpoint.")
        answer = await _perform(request, action, given, body, strings_only=not as_json)
    except ClientGone:
        raise
    except Exception as raised:  # noqa: BLE001  # the client gets an error of AWS for any exception
        return _error(fault_of(raised), request_id, as_json=as_json)
    if as_json:
        kept = {name: value for name, value in answer.items() if value or name != "Failed"}
        return _response(msgspec.json.encode(kept), 200, request_id, as_json=True)
    return _response(query_protocol.answer(action, answer, request_id), 200, request_id, as_json=False)


async def _perform(
    request: ServiceRequest, action: str, given: dict[str, Any], body: bytes, *, strings_only: bool
) -> Any:
    operation = OPERATIONS.get(action)
    account = request.path.get("account")
    if account is not None:
        given.setdefault("QueueUrl", f"{ROOT}/{account}/{request.path['queue']}")
    region = await _authorize(request, operation[2] if operation else OPERATIONS["ListQueues"][2], body)
    if operation is None:
        raise SqsError("UnsupportedOperation", f"{action} is not supported by this service.")
    handler, model, _ = operation
    if request.credential is None:
        request.namespace = _namespace(given) or request.namespace
        if request.namespace not in request.app.clients.namespaces:
            raise unknown_queue()
    operation_call = Call(request, region, strings_only=strings_only)
    return await handler(operation_call, operation_call.parse(model, given))


async def _authorize(request: ServiceRequest, scopes: frozenset[Scope], body: bytes) -> str:
    """Checks the signature where tokens are required. Returns the region that it names."""
    authorizer, header = request.app.authorizer, request.headers.get(b"authorization", b"").decode("latin-1")
    await authorizer.detect_first_token()
    if not authorizer.settings.tokens:
        try:
            return signature.parse(header).region or REGION
        except SqsError:
            return REGION
    signed = signature.parse(header)
    found = await authorizer.find_credential(signed.access_key)
    if found is None:
        raise SqsError("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
    scope = request.scope
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else scope["path"]
    sent = signature.SignedRequest(
        scope["method"], path, scope["query_string"].decode("latin-1"), request.headers, body
    )
    signature.check(signed, sent, found.token.record.hash, time.time())
    authorizer.check_scopes(found, scopes)
    authorizer.count_call(found)
    request.namespace, request.credential = found.namespace, found
    return signed.region or REGION


def _namespace(given: dict[str, Any]) -> str:
    """The namespace that the queue's URL names, its account."""
    try:
        parts = urlsplit(str(given.get("QueueUrl", ""))).path.rstrip("/").split("/")
    except ValueError:
        return ""
    return unquote(parts[-2]) if len(parts) > 2 else ""


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
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
