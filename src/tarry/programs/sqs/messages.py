"""Messages: a job's body and headers as SQS has them, MD5 sums, receipt handles.

body       JSON text; {"body": …, "attributes": …} where the attributes are too long for a header
headers    sqs.attributes   message attributes, JSON             sqs.group    MessageGroupId
           sqs.sent         of a moved message: when it was sent, ms   sqs.source   ... and the ARN of its queue
           sqs.trace        AWSTraceHeader                       sqs.whole    the body has the attributes
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import TYPE_CHECKING, Any

import msgspec

from tarry import Reservation
from tarry.errors import BodyError
from tarry.internal import JSON
from tarry.programs.sqs.faults import SqsError, bad_handle
from tarry.wire.bodies import text_of

if TYPE_CHECKING:
    from tarry import AsyncJob
    from tarry.internal import StoredJob
    from tarry.wire.bodies import Body

ATTRIBUTES, GROUP, TRACE, SENT, SOURCE, WHOLE = (
    "sqs.attributes", "sqs.group", "sqs.trace", "sqs.sent", "sqs.source", "sqs.whole",
)  # fmt: skip
MOST_ATTRIBUTES = 10
LONG_ATTRIBUTES = 5_000
"""Longer ones, in bytes of a header, which escapes their quotes, are stored in the body."""
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile("[A-Za-z0-9_.-]{1,256}")
_NAME_CHARACTERS = re.compile("[A-Za-z0-9_.-]+")
_TYPE = re.compile(r"(String|Number|Binary)(\.[^\x00-\x1f]{1,240})?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_GROUP = re.compile("[!-~]{1,128}")


class AttributeValue(msgspec.Struct, rename="pascal", omit_defaults=True):
    """The value of a message attribute; a binary one in base64."""

    data_type: str = ""
    string_value: str | None = None
    binary_value: str | None = None
    string_list_values: list[str] | None = None
    binary_list_values: list[str] | None = None


Attributes = Mapping[str, AttributeValue]
_decode_attributes = msgspec.json.Decoder(dict[str, AttributeValue]).decode


class WholeMessage(msgspec.Struct):
    """A body together with its attributes."""

    body: str
    attributes: dict[str, AttributeValue]


def digest_of_body(text: str) -> str:
    return md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def digest_of_attributes(attributes: Attributes) -> str:
    """The MD5 that the SDKs compare: name, type and value of each, sorted, each after its length."""
    parts = list[bytes]()
    for name in sorted(attributes):
        one = attributes[name]
        binary = one.data_type.startswith("Binary")
        value = b64decode(one.binary_value or "") if binary else (one.string_value or "").encode()
        for part in (name.encode(), one.data_type.encode()):
            parts += (struct.pack(">I", len(part)), part)
        parts += (b"\x02" if binary else b"\x01", struct.pack(">I", len(value)), value)
    return md5(b"".join(parts), usedforsecurity=False).hexdigest()


def check_text(text: str) -> None:
    """Raises ``SqsError`` for a body that SQS does not take."""
    if not text:
        raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
    if found := _ILLEGAL.search(text):
        told = f"Invalid binary character '#x{ord(found[0]):X}' was found in the message body, the set of allowed characters is"
        raise SqsError("InvalidMessageContents", f"{told} #x9 | #xA | #xD | [#x20 to #xD7FF] | [#xE000 to #xFFFD]")


def size_of(text: str, attributes: Attributes) -> int:
    """The size of a message, in bytes: its text, and names, types and values of its attributes."""
    size = len(text.encode("utf-8", "replace"))
    for name, one in attributes.items():
        binary, value = one.binary_value or "", one.string_value or ""
        size += len(name) + len(one.data_type) + len(value.encode("utf-8", "replace"))
        size += len(binary) // 4 * 3 - binary[-2:].count("=")
    return size


def check_attributes(attributes: Attributes) -> None:
    """Raises ``SqsError`` for message attributes that SQS does not take."""
    if len(attributes) > MOST_ATTRIBUTES:
        told = f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MOST_ATTRIBUTES}]."
        raise SqsError("InvalidParameterValue", told)
    for name, one in attributes.items():
        _check_attribute(name, one)


def _check_attribute(name: str, one: AttributeValue) -> None:
    def refused(why: str) -> SqsError:
        return SqsError("InvalidParameterValue", f"The message attribute '{name[:256]}' {why}")

    lowered = name.lower()
    if name and not _NAME_CHARACTERS.fullmatch(name):
        told = f"The message attribute name '{name[:256]}' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters."
        raise SqsError("InvalidParameterValue", told)
    if not _NAME.fullmatch(name) or lowered.startswith(("aws.", "amazon.")) or name[0] == "." or ".." in name:
        raise refused("has an invalid name: letters, digits, '_', '-' and '.' only, not beginning with AWS. or Amazon.")
    if not _TYPE.fullmatch(one.data_type):
        raise refused(
            "has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String."
        )
    if one.string_list_values or one.binary_list_values:
        raise SqsError(
            "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported."
        )
    binary = one.data_type.startswith("Binary")
    value = one.binary_value if binary else one.string_value
    if not value:
        raise refused(f"must contain a non-empty value of type '{one.data_type.partition('.')[0]}'.")
    if binary:
        try:
            b64decode(value, validate=True)
        except ValueError:
            raise refused("has a value that is not base64.") from None
        return
    if _ILLEGAL.search(value):
        raise refused("contains an invalid character.")
    if one.data_type.startswith("Number") and not _NUMBER.fullmatch(value):
        raise refused(f"has the value '{value[:80]}', which is not a number.")


def check_group(group: str) -> str:
    if not _GROUP.fullmatch(group):
        told = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise SqsError("InvalidParameterValue", told)
    return group


def encoded(text: str, attributes: Attributes, others: Mapping[str, str]) -> tuple[Body, dict[str, str]]:
    """A message as a job's body and headers."""
    headers, body = dict(others), msgspec.json.encode(text)
    if attributes:
        packed = msgspec.json.encode(attributes).decode()
        if len(msgspec.json.encode(packed)) > LONG_ATTRIBUTES:
            headers[WHOLE] = "1"
            body = msgspec.json.encode(WholeMessage(text, dict(attributes)))
        else:
            headers[ATTRIBUTES] = packed
    return (body, JSON), headers


def headers_of(job: StoredJob[Body]) -> dict[str, str]:
    """A job's headers; none if they are damaged."""
    try:
        return job.headers
    except BodyError:
        return {}


def decoded(job: AsyncJob[Body], headers: Mapping[str, str]) -> tuple[str, dict[str, AttributeValue]]:
    """A job's text and message attributes. A job that another client of tarry added has its body as text."""
    try:
        if WHOLE in headers:
            whole = msgspec.json.decode(job.body[0], type=WholeMessage)
            text, attributes = whole.body, whole.attributes
        else:
            text, attributes = text_of(job.body), _decode_attributes(headers.get(ATTRIBUTES, "{}"))
        check_attributes(attributes)  # others may write headers, too
        return text, attributes
    except (msgspec.MsgspecError, UnicodeError, RecursionError, SqsError):
        return text_of(job.body), {}


def chosen(attributes: Attributes, names: Sequence[str]) -> dict[str, AttributeValue]:
    """The message attributes that a receiver asked for: by name, prefix with ``.*``, or ``All``."""
    if "All" in names or ".*" in names:
        return dict(attributes)
    prefixes = tuple(name[:-2] for name in names if name.endswith(".*"))
    return {name: one for name, one in attributes.items() if name in names or (prefixes and name.startswith(prefixes))}


def shown(job: AsyncJob[Body], handle: str, system: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """A message as ReceiveMessage answers it."""
    headers = headers_of(job)
    text, attributes = decoded(job, headers)
    answer: dict[str, Any] = {
        "MessageId": job.id,
        "ReceiptHandle": handle,
        "MD5OfBody": digest_of_body(text),
        "Body": text,
    }
    facts = {
        "SenderId": "tarry",
        "SentTimestamp": headers.get(SENT) or str(int(job.created.timestamp() * 1000)),
        "ApproximateReceiveCount": str(job.attempt),
        "ApproximateFirstReceiveTimestamp": str(int((job.due + job.lateness).timestamp() * 1000)),
        "MessageGroupId": headers.get(GROUP),
        "AWSTraceHeader": headers.get(TRACE),
        "DeadLetterQueueSourceArn": headers.get(SOURCE),
    }
    wanted = {name: value for name, value in facts.items() if value is not None and ("All" in system or name in system)}
    if wanted:
        answer["Attributes"] = wanted
    if found := chosen(attributes, names):
        answer["MessageAttributes"] = msgspec.to_builtins(found)
        answer["MD5OfMessageAttributes"] = digest_of_attributes(found)
    return answer


def handle_of(queue: str, job: AsyncJob[Body]) -> str:
    """A receipt handle: place, receipt and id."""
    return urlsafe_b64encode(f"{queue}/{job.receipt}/{job.id}".encode()).decode()


def reservation_of(queue: str, handle: str) -> Reservation:
    """The reservation of a handle. Raises ``SqsError`` if it is none of this queue."""
    try:
        place, receipt, id = urlsafe_b64decode(handle.encode("ascii")).decode().split("/", 2)
    except ValueError:
        raise bad_handle() from None
    if place != queue or not (receipt.isascii() and receipt.isdigit() and len(receipt) < 17 and id):
        raise bad_handle()
    return Reservation(id, int(receipt))
