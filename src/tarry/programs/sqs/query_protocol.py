"""The query protocol: a form in, XML out. Lists and maps are numbered fields: ``Attribute.1.Name=DelaySeconds``."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.sax.saxutils import escape

from tarry.programs.sqs import limits
from tarry.programs.sqs.faults import SqsError

MOST_FIELDS = 5_000
LONGEST_NAME = 300
"""Bytes of a parameter's name, as it is sent."""
PER_FIELD = 64
"""The cost of a field besides its bytes, in bytes."""
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
_LISTS = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "TagKey": "TagKeys",
    **{
        f"{action}BatchRequestEntry": "Entries"
        for action in ("SendMessage", "DeleteMessage", "ChangeMessageVisibility")
    },
}
_MAPS = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
_ITEMS = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
}
_PAIRS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}
_ACTION = re.compile(rb"(?:^|&)Action=(\w+)")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


async def parse(body: bytes) -> tuple[str, dict[str, Any]]:
    """The action, and its parameters as the JSON protocol has them. Raises ``SqsError``. The event loop runs between the steps."""
    action = _ACTION.search(body[: limits.STEP])
    limits.check_decoded(len(body) - 2 * await limits.count(body, b"%"), action[1].decode() if action else "")
    if await limits.count(body, b"&") >= MOST_FIELDS:
        raise SqsError("MalformedQueryString", "The query string is malformed.")
    tree: dict[str, Any] = {}
    steps = limits.Steps()
    for field in body.split(b"&"):
        raw, _, rest = field.partition(b"=")
        if not field:
            continue
        if len(raw) > LONGEST_NAME:
            raise SqsError("MalformedQueryString", "The query string is malformed.")
        name, value = await _decoded(raw, steps), await _decoded(rest, steps)
        parts = name.split(".")
        node = tree
        for part in parts[:-1]:
            below = node.setdefault(part, {})
            if not isinstance(below, dict) or len(parts) > 8:
                raise SqsError("MalformedQueryString", f"The parameter {name[:80]} is malformed.")
            node = below
        node[parts[-1]] = value
    action = tree.pop("Action", None)
    if not isinstance(action, str):
        raise SqsError("MissingAction", "The request must contain the parameter Action.")
    for name in ("Version", "Expires"):
        tree.pop(name, None)
    found = _named(tree)
    if action == "CreateQueue" and "Tags" in found:
        found["tags"] = found.pop("Tags")  # the model's own spelling
    return action, found


async def _decoded(raw: bytes, steps: limits.Steps) -> str:
    """A name or a value of a form, decoded step by step."""
    raw, parts, at = raw.replace(b"+", b" "), list[bytes](), 0
    while at < len(raw) or not parts:
        end = at + limits.STEP
        cut = raw.find(b"%", end - 2, end)  # an escape stays whole
        end = cut if at < cut else end
        parts.append(unquote_to_bytes(raw[at:end]))
        at = end
        await steps.take(len(parts[-1]) + PER_FIELD)
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError:
        raise SqsError("MalformedQueryString", "The query string is malformed.") from None


def _named(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if name in _LISTS and isinstance(value, dict):
            found[_LISTS[name]] = [_named(one) if isinstance(one, dict) else one for one in _numbered(value)]
        elif name in _MAPS and isinstance(value, dict):
            plural, key = _MAPS[name]
            entries = [one for one in _numbered(value) if isinstance(one, dict)]
            found[plural] = {str(one.get(key, "")): one.get("Value", "") for one in entries}
        else:
            found[name] = value
    return found


def _numbered(items: dict[str, Any]) -> list[Any]:
    known = [(int(at), item) for at, item in items.items() if at.isascii() and at.isdigit() and len(at) < 6]
    return [item for _, item in sorted(known, key=lambda pair: pair[0])]


def answer(action: str, members: dict[str, Any], request_id: str) -> bytes:
    """The answer as XML."""
    shown = "".join(_element(action, name, value) for name, value in members.items())
    result = f"<{action}Result>{shown}</{action}Result>" if members else ""
    told = f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
    return f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">{result}{told}</{action}Response>'.encode()


def error(fault: SqsError, request_id: str) -> bytes:
    """An error as XML."""
    shown = _text("Type", fault.kind) + _text("Code", fault.code) + _text("Message", fault.message) + "<Detail/>"
    told = f"<Error>{shown}</Error><RequestId>{request_id}</RequestId>"
    return f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}">{told}</ErrorResponse>'.encode()


def _element(action: str, name: str, value: Any) -> str:
    if isinstance(value, list):
        item = f"{action}ResultEntry" if name == "Successful" else _ITEMS.get(name, name)
        return "".join(_element(action, item, one) for one in value)
    if isinstance(value, dict) and name in _PAIRS:
        item, key = _PAIRS[name]
        pairs = [_text(key, one) + _element(action, "Value", held) for one, held in value.items()]
        return "".join(f"<{item}>{pair}</{item}>" for pair in pairs)
    if isinstance(value, dict):
        return f"<{name}>{''.join(_element(action, one, held) for one, held in value.items())}</{name}>"
    return _text(name, str(value).lower() if isinstance(value, bool) else str(value))


def _text(name: str, value: str) -> str:
    return f"<{name}>{escape(_NOT_XML.sub(chr(0xFFFD), value), {chr(13): '&#13;'})}</{name}>"
