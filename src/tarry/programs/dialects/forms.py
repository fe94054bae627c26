"""The parameters of a Spring controller: fields of the query and of a form of either kind; those of the form win."""

from __future__ import annotations

import re
from email import message_from_bytes
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from tarry.errors import BadInput
from tarry.programs.serving.problems import WrongMedia
from tarry.programs.serving.request import UTF_8, media_header

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest

MOST_FIELDS = 100
PARTS = "multipart/form-data"
FORMS = ("application/x-www-form-urlencoded", PARTS)
LONGEST_HEAD = 1000
"""The most bytes that the headers of a part have; ``email`` takes the square of a header's length."""
PLAIN = ("binary", "8bit", "7bit")
"""The codings of a part (Content-Transfer-Encoding) that change nothing."""
_STARTS = re.compile(rb"[ \t]*\r?\n")
_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")


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
        form = _multipart(request.headers[b"content-type"], raw) if media == PARTS else _fields(raw.decode())
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
    """Parses a multipart form, as ``curl -F`` and browsers send one. Raises ``BadInput``.

    Its parts are cut here: the parser of ``email`` would look for further parts in each, and compare each line with all boundaries.
    """
    line = b"\n--" + (media_header(content_type).get_boundary() or "").encode("latin-1", "replace")
    _, *parts = (b"\n" + raw).split(line, MOST_FIELDS + 2)
    if len(parts) > MOST_FIELDS + 1:
        raise BadInput(f"form: it has more than {MOST_FIELDS} fields.")
    if (
        line == b"\n--"
        or len(parts) < 2
        or not parts[-1].startswith(b"--")
        or not all(_STARTS.match(part) for part in parts[:-1])
    ):
        raise BadInput("form: it cannot be read: its parts do not match the boundary of its content-type.")
    return dict(_field(part) for part in parts[:-1])


def _field(raw: bytes) -> tuple[str, str]:
    head = _HEAD_ENDS.search(raw, 0, LONGEST_HEAD)
    if head is None:
        raise BadInput(f"form: the headers of a part have no end, or more than {LONGEST_HEAD} bytes.")
    part = message_from_bytes(raw[: head.end()].lstrip())
    name = part.get_param("name", header="content-disposition")
    if not isinstance(name, str) or part.get_filename() is not None:
        raise BadInput("form: each part must be a field with a name and text.")
    if (charset := part.get_content_charset()) not in (None, *UTF_8):
        raise BadInput(f"form: the charset of {name[:40]!r} is {str(charset)[:40]!r}; send UTF-8.")
    if (coding := part.get("content-transfer-encoding", PLAIN[0])).strip().lower() not in PLAIN:
        raise BadInput(f"form: {name[:40]!r} is coded as {coding[:40]!r}; send it as it is.")
    try:
        return name, raw[head.end() :].removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise BadInput(f"form: {name[:40]!r} is not UTF-8.") from None
