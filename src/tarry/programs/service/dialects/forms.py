"""What a controller of Spring is given: fields in the query, and in a form of either kind; a form's win."""

from __future__ import annotations

from email import message_from_bytes
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from tarry.errors import BadInput
from tarry.programs.service.problems import WrongMedia

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

MOST_FIELDS = 100
PARTS = "multipart/form-data"
FORMS = ("application/x-www-form-urlencoded", PARTS)


def query(x: ServiceRequest) -> dict[str, str]:
    """The fields of the query. Raises ``BadInput``."""
    return _fields(x.scope["query_string"].decode())


async def fields(x: ServiceRequest) -> dict[str, str]:
    """The fields of query and form. Raises ``BadInput``, ``WrongMedia``."""
    media, raw = x.media(), await x.read()
    if raw and media not in FORMS:
        raise WrongMedia("The fields stand in the query, or in a form.")
    try:
        form = _multipart(x.headers[b"content-type"], raw) if media == PARTS else _fields(raw.decode())
    except UnicodeDecodeError:
        raise BadInput("form: it is not UTF-8.") from None
    return {**query(x), **form}


def _fields(text: str) -> dict[str, str]:
    """A form, or a query. Raises ``BadInput``."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError as fault:
        raise BadInput(f"form: it cannot be read: {fault}.") from None


def _multipart(content_type: bytes, raw: bytes) -> dict[str, str]:
    """A form of many parts, as ``curl -F`` and browsers send one. Raises ``BadInput``."""
    form = message_from_bytes(b"Content-Type: %s\r\n\r\n%s" % (content_type, raw))
    if not form.is_multipart() or form.defects:
        raise BadInput("form: it cannot be read: its parts do not begin and end as its content-type says.")
    parts = form.get_payload()
    if len(parts) > MOST_FIELDS:
        raise BadInput(f"form: it has more than {MOST_FIELDS} fields.")
    return dict(_field(part) for part in parts if isinstance(part, Message))


def _field(part: Message) -> tuple[str, str]:
    name, text = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
    if not isinstance(name, str) or not isinstance(text, bytes) or part.get_filename() is not None:
        raise BadInput("form: each part is a field with a name and a text.")
    try:
        return name, text.decode()
    except UnicodeDecodeError:
        raise BadInput(f"form: {name[:40]!r} is not UTF-8.") from None
