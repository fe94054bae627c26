"""The words that requests and answers are made of: names, spans, moments, bytes; and what every request is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

MOST_WAIT_S = 60
"""The longest wait of one request."""
MOST_MANY = 1000


def shaped(pattern: str, **more: Any) -> Meta:
    """What a text looks like, for documents: the library itself refuses others, in better words."""
    return Meta(extra_json_schema={"pattern": pattern, **more})


NO_DOTS = r"^(?!\.{1,2}$)"
_NAME = r"^[^\s\x00-\x1f\x7f-\x9f{}]([^\x00-\x1f\x7f-\x9f{}\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f{}])?$"
_NUMBER = r"\d{1,9}(\.\d{1,6})?"
_WORDS = rf"^({_NUMBER}|({_NUMBER}(us|ms|s|m|h|d|w))+|PT{_NUMBER}S|P\d{{1,4}}D)$"
_BYTES = Meta(description="1 to 200 bytes of UTF-8")
Name = Annotated[str, shaped(_NAME, minLength=1, maxLength=200), _BYTES]
NewName = Annotated[str, shaped(NO_DOTS + _NAME[1:], minLength=1, maxLength=200), _BYTES]
"""Of something that may not be there yet."""
Seconds = Annotated[float, Meta(ge=0)]
Words = Annotated[str, shaped(_WORDS), Meta(max_length=100)]
Span = Annotated[
    Annotated[int, Meta(ge=0)] | Seconds | Words, Meta(description='Seconds, or text: "10m", "1h30m", ISO 8601 "PT10M"')
]
Wait = Annotated[Span, Meta(description="how long to wait, at most 60 s")]
Moment = Annotated[datetime, Meta(tz=True)]
Receipt = Annotated[int, Meta(ge=1, le=2**53 - 1, description="what pop answered with the job")]
Attempts = Annotated[int, Meta(ge=1, le=999_999)]
WholeRate = Annotated[int, Meta(ge=1, le=1_000_000)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": r"^[1-9]\d{0,5}/(s|m|h|d)$"})]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Ids = Annotated[list[Name], Meta(min_length=1, max_length=MOST_MANY)]
Topics = Annotated[list[Name], Meta(min_length=1, max_length=100)]
Headers = Annotated[Mapping[str, str], Meta(description="a small map, kept with the job")]
Base64 = Annotated[str, Meta(description="bytes, as base64", extra_json_schema={"contentEncoding": "base64"})]
AnyJson = Annotated[Raw, Meta(description="any JSON", extra_json_schema={})]


class Strict(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request. A field that is not known is refused."""


class Answer(Struct, omit_defaults=True):
    """An answer. What does not apply is left out."""


_MS = timedelta(milliseconds=1)
Milliseconds = Annotated[float, Meta(ge=0)]


def ms(span: timedelta) -> float:
    """To the microsecond; a whole number where it is one."""
    found = round(span / _MS, 3)
    return int(found) if found.is_integer() else found
