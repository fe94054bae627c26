"""What a browser asks for: words of a query, times as people write them, addresses that lead back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from tarry.errors import BadInput
from tarry.values.durations import duration_us
from tarry.verbs.jobs.models import State

if TYPE_CHECKING:
    from starlette.requests import Request

    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.programs.dashboard.access import Role
    from tarry.programs.dashboard.app import Dashboard
    from tarry.programs.dashboard.namespaces import NamespaceLink

FORM_S = 30.0
"""In this time a form must come."""
STATES: tuple[State, ...] = get_args(State)
_STATES: dict[str, State] = {state: state for state in STATES}
_RELATIVE_TIME = re.compile(r"(?P<past>-)?\+?(?:in )?(?P<span>.+?)(?P<ago> ago)?")


class NotFound(Exception):
    """What was asked for is not there; the message says so."""


class Visit:
    """One look by one reader: what it asks, and what it may use."""

    def __init__(self, dashboard: Dashboard, root: str, asked: Mapping[str, str], role: Role) -> None:
        self.dashboard = dashboard
        self.root = root
        self.asked = asked
        self.role = role
        self.neighbours: Sequence[NamespaceLink] = ()
        self.elsewhere = ""
        """Where to sign in to a namespace that this reader is not told of, if there may be one."""

    @property
    def client(self) -> AsyncClient:
        return self.dashboard.client

    @property
    def acts(self) -> bool:
        """Whether this reader may change anything."""
        return self.role == "admin"

    def word(self, name: str, default: str = "") -> str:
        return self.asked.get(name, "").strip() or default

    def topic(self) -> AsyncTopic[Any]:
        """The topic that is asked for. Raises ``BadInput``."""
        return self.client.topic(self.asked.get("topic", ""))

    def state(self) -> State | None:
        return parse_state(self.word("state"))

    def url(self, path: str, **query: object) -> str:
        """An address inside of the dashboard. What is ``None`` or empty is left out."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return self.root + path + (f"?{urlencode(given)}" if given else "")

    def again(self, path: str, **changes: object) -> str:
        """This page with other words in its query."""
        kept: dict[str, object] = {name: value for name, value in self.asked.items() if name != "said"}
        return self.url(path, **{**kept, **changes})


class TooLong(HTTPException):  # it is answered by where it is raised
    """A form is longer than any that the dashboard sends."""


async def sent(request: Request, longest: int) -> bytes:
    """The body of a form. Raises ``TooLong``, and ``HTTPException`` for one that is too slow or coded."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "Send it as it is, without Content-Encoding.")
    raw = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for part in request.stream():
                raw += part
                if len(raw) > longest:
                    raise TooLong(413, f"form: more than {longest} bytes.")
    except TimeoutError:
        raise HTTPException(408, f"It was not all here within {FORM_S:g} s.", {"connection": "close"}) from None
    return bytes(raw)


def parse_state(word: str) -> State | None:
    """A state by its name; of nothing ``None``. Raises ``BadInput``."""
    found = _STATES.get(word)
    if word and found is None:
        raise BadInput(f"state: {word[:40]!r} is unknown; it is one of {', '.join(STATES)}.")
    return found


def parse_moment(text: str, now: datetime, what: str) -> datetime | None:
    """A moment as people write it: ``now``, ``10m ago``, ``in 1h``, ``-10m``, ``+1h``, ISO 8601, milliseconds since 1970."""
    text = text.strip()
    if not text:
        return None
    if text == "now":
        return now
    if re.fullmatch(r"\d{12,15}", text):
        return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=int(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
    found = _RELATIVE_TIME.fullmatch(text)
    assert found is not None
    us = duration_us(found["span"].strip(), what)
    try:
        return now - timedelta(microseconds=us) if found["past"] or found["ago"] else now + timedelta(microseconds=us)
    except OverflowError:
        raise BadInput(f"{what}: {text[:40]!r} lies before the year 1 or beyond 9999.") from None


def return_path(root: str, path: str) -> str:
    """Where a form leads back to: a path inside of the dashboard, whatever it asks for."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return root + path if inside else root + "/"
