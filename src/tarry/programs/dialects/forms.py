"""The parameters of a Spring controller: fields of the query and of a form of either kind; those of the form win."""

from __future__ import annotations

import asyncio
from email import message_from_bytes
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from tarry.errors import BadInput
from tarry.programs.serving.problems import WrongMedia
from tarry.programs.serving.request import LONGEST_MEDIA, UTF_8

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest

MOST_FIELDS = 100
PARTS = "multipart/form-data"
FORMS = ("application/x-www-form-urlencoded", PARTS)


def query(request: ServiceRequest) -> dict[str, str]:
    """The fields of the query. Raises ``BadInput``."""
    return _fields(request.scope["query_string"].decode())


async def fields(request: ServiceRequest) -> dict[str, str]:
    """The fields of query and form. Raises ``BadInput``, ``WrongMedia``."""
    media, raw = request.media(), await request.read()
    if raw and media not in FORMS:
        raise WrongMedia("Send the fields in the query, or in a form.")
    request.check_charset()
    try:
        if media != PARTS:
            form = _fields(raw.decode())
        else:  # in a thread, because a long form takes its parser seconds
            form = await asyncio.to_thread(_multipart, request.headers[b"content-type"], raw)
    except UnicodeDecodeError:
        raise BadInput("form: it is not UTF-8.") from None
    return {**query(request), **form}


def _fields(text: str) -> dict[str, str]:
    """Parses a urlencoded form, or a query. Raises ``BadInput``."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError as fault:
        raise BadInput(f"form: it cannot be read: {fault}.") from None


def _multipart(content_type: bytes, raw: bytes) -> dict[str, str]:
    """Parses a multipart form, as ``curl -F`` and browsers send one. Raises ``BadInput``."""
    if raw.count(b"\n--") > 2 * MOST_FIELDS:
        raise BadInput(f"form: it has more than {MOST_FIELDS} fields.")
    form = message_from_bytes(b"Content-Type: %s\r\n\r\n%s" % (content_type, raw))
    if not form.is_multipart() or form.defects:
        raise BadInput("form: it cannot be read: its parts do not match the boundary of its content-type.")
    parts = form.get_payload()
    if len(parts) > MOST_FIELDS:
        raise BadInput(f"form: it has more than {MOST_FIELDS} fields.")
    return dict(_field(part) for part in parts if isinstance(part, Message))


def _field(part: Message) -> tuple[str, str]:
    if any(len(value) > LONGEST_MEDIA for value in part.values()):
        raise BadInput(f"form: a header of a part has more than {LONGEST_MEDIA} characters.")
    name, text = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
    if not isinstance(name, str) or not isinstance(text, bytes) or part.get_filename() is not None:
        raise BadInput("form: each part must be a field with a name and text.")
    if (charset := part.get_content_charset()) not in (None, *UTF_8):
        raise BadInput(f"form: the charset of {name[:40]!r} is {str(charset)[:40]!r}; send UTF-8.")
    try:
        return name, text.decode()
    except UnicodeDecodeError:
        raise BadInput(f"form: {name[:40]!r} is not UTF-8.") from None
