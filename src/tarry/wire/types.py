"""The types that requests and answers are made of: names, spans, moments, bytes; and what every request is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

LONGEST_WAIT_S = 60
"""The longest wait of one request."""
MOST_ITEMS = 1000


def with_pattern(pattern: str, **more: Any) -> Meta:
    """The pattern of a text, for documents: the library itself refuses others, with better errors."""
    return Meta(extra_json_schema={"pattern": pattern, **more})


NO_DOTS = r"^(?!\.{1,2}$)"
_NAME = r"[^\s\x00-\x1f\x7f-\x9f{}]([^\x00-\x1f\x7f-\x9f{}\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f{}])?$"
_FRACTION = r"(\.\d{1,6})?"
_NUMBER = rf"\d{{1,9}}{_FRACTION}"
_SUM = rf"({_NUMBER}(us|ms|s)|\d{{1,7}}{_FRACTION}(m|h)|\d{{1,4}}{_FRACTION}(d|w)){{1,4}}"
_ISO = r"PT(?=\d)(\d{1,5}H)?(\d{1,6}M)?(\d{1,8}(\.\d{1,6})?S)?"
_SOME_ISO = r"PT(?=\d)([1-9]\d{0,2}H)?([1-9]\d{0,3}M)?([1-9]\d{0,4}(\.\d{1,6})?S)?|P([1-9]|[1-3]\d|4[0-5])D"
_DURATION = rf"{_NUMBER}|{_SUM}|{_ISO}|P\d{{1,4}}D"
_MINUTES = rf"([1-9]\d{{0,3}}m)?([1-9]\d{{0,4}}{_FRACTION}s)?"
_LONG_WORDS = (
    rf"[1-9]\d{{0,8}}{_FRACTION}|(?=\d)([1-9]\d{{0,3}}w)?([1-9]\d{{0,4}}d)?([1-9]\d{{0,5}}h)?{_MINUTES}|{_SOME_ISO}"
)
"""A second at least."""
_TTR_WORDS = (
    rf"[1-9]\d{{0,5}}{_FRACTION}|(?=\d)([1-3]w)?(([1-9]|1\d)d)?(([1-9]|1\d|2[0-3])h)?{_MINUTES}([1-9]\d{{0,5}}ms)?|"
    rf"[1-9]\d{{0,2}}h|([1-9]|[1-3]\d|4[0-8])d|[1-9]\d{{0,5}}s|{_SOME_ISO}"
)
"""From a millisecond to 49 days."""
_WAIT_WORDS = r"^(([0-5]?\d(\.\d{1,6})?|60)s?|\d{1,4}ms|[01]m|PT[0-5]?\dS)$"
_DAY_WORDS = (
    rf"([1-9]\d{{0,3}}|[1-7]\d{{4}}){_FRACTION}s?|[1-9]\d{{0,6}}ms|([1-9]\d{{0,2}}|1[0-3]\d\d|14[0-3]\d|1440)m|"
    r"([1-9]|1\d|2[0-3])h([1-5]?\dm)?|24h|1d|P1D|PT([1-9]|1\d|2[0-4])H|PT[1-9]\d{0,2}M|PT[1-9]\d{0,3}S"
)
"""From a millisecond to a day."""
MOST_SPAN_S = 250_000_000_000
"""The longest delay of a request; in the year 2077 it reaches beyond 9999."""
_BYTES = Meta(description="1 to 200 bytes of UTF-8")
Name = Annotated[str, with_pattern(NO_DOTS + _NAME, minLength=1, maxLength=200), _BYTES]
JavaName = Annotated[
    str,
    with_pattern(r"^(?![{}]*(tarry:|redisson_))(?![\s\S]*:redisson_options[{}]*$)[\s\S]+$", minLength=1),
    Meta(description="as the applications call it; not the inside of something else"),
]
Words = Annotated[str, with_pattern(f"^({_DURATION})$"), Meta(max_length=100)]
LongWords = Annotated[str, with_pattern(f"^({_LONG_WORDS})$"), Meta(max_length=100)]
SomeWords = Annotated[str, with_pattern(f"^({_LONG_WORDS}|[1-9]\\d{{0,8}}ms)$"), Meta(max_length=100)]
Start = Annotated[
    str, with_pattern(rf"^({_DURATION}|20\d\d-(0[1-9]|1[0-2])-([01][1-9]|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ)$")
]
"""A span, or a moment."""
TtrWords = Annotated[str, with_pattern(f"^({_TTR_WORDS})$"), Meta(max_length=100)]
_TEXT = 'Seconds, or text: "10m", "1h30m", ISO 8601 "PT10M"'


def _span(minimum: float = 0, maximum: float = MOST_SPAN_S) -> Meta:
    """The library refuses other values, with better errors, except negative ones and those beyond any calendar."""
    return Meta(ge=0, le=MOST_SPAN_S, extra_json_schema={"allOf": [{"minimum": minimum, "maximum": maximum}]})


Span = Annotated[Annotated[int, _span()] | Annotated[float, _span()] | Words, Meta(description=_TEXT)]
SomeSpan = Annotated[
    Annotated[int, _span(1)] | Annotated[float, _span(0.001)] | SomeWords,
    Meta(description=_TEXT),
]
"""One that is not 0."""
LongSpan = Annotated[Annotated[int, _span(1)] | Annotated[float, _span(1)] | LongWords, Meta(description=_TEXT)]
"""A second at least."""
Period = Annotated[
    Annotated[int, _span(1)] | Annotated[float, _span(0.1)] | LongWords,
    Meta(description=_TEXT),
]
"""A tenth of a second at least."""
_LONGEST_TTR_S = 4_294_967
Ttr = Annotated[
    Annotated[int, _span(1, _LONGEST_TTR_S)] | Annotated[float, _span(0.001, _LONGEST_TTR_S)] | TtrWords,
    Meta(description=_TEXT),
]
DayWords = Annotated[str, with_pattern(f"^({_DAY_WORDS})$"), Meta(max_length=100)]
WaitWords = Annotated[str, with_pattern(_WAIT_WORDS), Meta(max_length=100)]
Wait = Annotated[
    Annotated[int, _span(0, LONGEST_WAIT_S)] | Annotated[float, _span(0, LONGEST_WAIT_S)] | WaitWords,
    Meta(description=f"how long to wait, at most {LONGEST_WAIT_S} s; seconds, or text"),
]
Moment = Annotated[datetime, Meta(tz=True)]
Receipt = Annotated[int, Meta(ge=1, le=2**53 - 1, description="the number that pop answered with the job")]
Attempts = Annotated[int, Meta(ge=1, le=999_999)]
Priority = Annotated[
    int, Meta(ge=0, le=3, description="of the jobs that are due, the highest is handed out first; 0 if none is given")
]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="such as a customer's name, at most 200 bytes; the topic's limits for keys count the jobs of each",
    ),
]
WholeRate = Annotated[int, Meta(ge=1, le=1_000_000)]
Pending = Annotated[int, Meta(ge=1, le=10**15)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": r"^[1-9]\d{0,5}/(s|m|h|d)$"})]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Ids = Annotated[list[Name], Meta(min_length=1, max_length=MOST_ITEMS)]
Topics = Annotated[list[Name], Meta(min_length=1, max_length=100)]
Headers = Annotated[Mapping[str, str], Meta(description="a small map, kept with the job")]
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Base64 = Annotated[str, Meta(description="bytes, as base64"), with_pattern(_BASE64, contentEncoding="base64")]
AnyJson = Annotated[Raw, Meta(description="any JSON", extra_json_schema={})]


class Strict(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request. A field that is not known is refused."""


class Answer(Struct, omit_defaults=True):
    """An answer. Fields that do not apply are left out."""


_MS = timedelta(milliseconds=1)
Milliseconds = Annotated[float, Meta(ge=0)]


def ms(span: timedelta) -> float:
    """To the microsecond; a whole number where it is one."""
    found = round(span / _MS, 3)
    return int(found) if found.is_integer() else found


def from_ms(span: float) -> timedelta:
    """A number of milliseconds as a duration, to the microsecond."""
    return timedelta(microseconds=round(span * 1000))
