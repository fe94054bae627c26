"""A request of a browser: its query, times as people write them, URLs of the dashboard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args
from urllib.parse import quote, urlencode

from tarry.errors import BadInput, UnknownTopic
from tarry.internal import JobSearch, duration_us, perform, perform_view, server_verbs
from tarry.programs.dashboard import filters
from tarry.types import State, StateFilter

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

    from tarry import AsyncClient, AsyncTopic
    from tarry.programs.dashboard.access import AccessControl, Role
    from tarry.programs.dashboard.key_scanner import KeyScanner
    from tarry.programs.dashboard.sampler import Sampler

P = TypeVar("P")
T = TypeVar("T")
BASE_KEY = "tarry.base"
"""The key in the ASGI scope of the path of the first namespace."""
STATES: tuple[State, ...] = get_args(State)
FILTERS: tuple[StateFilter, ...] = (*STATES, "retrying", "finished")
SEARCH_FIELDS = ("task", "error", "text", "group")
_FILTERS: dict[str, StateFilter] = {state: state for state in FILTERS}
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_MILLISECONDS = re.compile(r"\d{12,15}", re.ASCII)
_RELATIVE_TIME = re.compile(r"(?P<past>-)?\+?(?:in )?(?P<span>.+?)(?P<ago> ago)?")


class NotFound(Exception):
    """The requested object does not exist; the message says which."""


@dataclass(frozen=True, slots=True)
class NamespaceLink:
    """A link to the dashboard of a namespace; ``at`` is its path."""

    name: str
    at: str
    here: bool


class PageHost(Protocol):
    """The dashboard, as far as its pages and parts know it."""

    client: AsyncClient
    access: AccessControl
    sampler: Sampler
    key_scanner: KeyScanner
    has_java: bool
    closing: asyncio.Event
    version: str
    templates: Environment

    def root(self, request: Request) -> str: ...
    def template_context(self, visit: PageRequest | None, root: str) -> dict[str, Any]: ...
    def page(self, visit: PageRequest, template: str, data: dict[str, Any]) -> Response: ...
    def view(self, visit: PageRequest, template: str, data: dict[str, Any]) -> str: ...
    def error_page(
        self, request: Request, status: int, what: str, why: str, visit: PageRequest | None = None
    ) -> Response: ...
    def unreachable_text(self, fault: BaseException) -> str: ...
    def add_note(self, text: str) -> str: ...
    def shared_part(self, kind: Callable[[PageHost], P]) -> P: ...
    async def opened_by(self, token: str, request: Request) -> tuple[PageHost, str] | None: ...


class PageRequest:
    """One request by one visitor: its query, its role, and the dashboard."""

    def __init__(self, dashboard: PageHost, root: str, query: Mapping[str, str], role: Role) -> None:
        self.dashboard = dashboard
        self.root = root
        self.query = query
        self.role = role
        self.namespace_links: Sequence[NamespaceLink] = ()
        self.other_sign_in = ""
        """The path to sign in to another namespace, if there is one that this visitor cannot see."""

    @property
    def client(self) -> AsyncClient:
        return self.dashboard.client

    @property
    def may_act(self) -> bool:
        """Whether this visitor may change anything."""
        return self.role == "admin"

    def require_java(self) -> None:
        """Raises ``NotFound`` where another dashboard has what is shared with Java."""
        if not self.dashboard.has_java:
            raise NotFound(
                "Queues, maps and locks that are shared with Java have no namespace. The dashboard of the service's first one has them."
            )

    def parameter(self, name: str) -> str:
        return self.query.get(name, "").strip()

    def topic(self) -> AsyncTopic[Any]:
        """The topic of the query. Raises ``BadInput``."""
        return self.client.topic(self.query.get("topic", ""))

    def state(self) -> StateFilter | None:
        return parse_state(self.parameter("state"))

    def search(self) -> JobSearch:
        """The task, the texts and the group to search for."""
        return search_of(self.parameter)

    def url(self, path: str, **query: object) -> str:
        """A URL of the dashboard. Parameters that are ``None`` or empty are left out."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return self.root + path + (f"?{urlencode(given)}" if given else "")

    def current_url(self, path: str, **changes: object) -> str:
        """The URL of this page, with changes to its query."""
        kept: dict[str, object] = {name: value for name, value in self.query.items() if name != "said"}
        return self.url(path, **{**kept, **changes})


def search_of(value: Callable[[str], str]) -> JobSearch:
    """The search of a query or of a form; an empty field searches for nothing."""
    return JobSearch(*(value(name) or None for name in SEARCH_FIELDS))


async def view_known(topic: AsyncTopic[Any], view: Awaitable[T]) -> T:
    """A view of a topic, asked together with whether the topic is known: both are in one pipeline. Raises ``NotFound``."""
    found: T
    found, _ = await asyncio.gather(view, _refuse_unknown(topic))
    return found


async def _refuse_unknown(topic: AsyncTopic[Any]) -> None:
    """Raises ``NotFound`` where the topic's own keys prove that nothing was ever there or configured."""
    known = server_verbs(topic).is_known()
    if not (await perform_view(topic, known) or await perform(topic, known)):  # a replica may not have it yet
        raise NotFound("U" + str(UnknownTopic(topic=filters.plain(topic.name)))[1:])


def parse_state(text: str) -> StateFilter | None:
    """A state, or ``retrying``, by its name; ``None`` for an empty one. Raises ``BadInput``."""
    found = _FILTERS.get(text)
    if text and found is None:
        raise BadInput(f"state: {text[:40]!r} is unknown; it is one of {', '.join(FILTERS)}.")
    return found


def parse_moment(text: str, now: datetime, what: str) -> datetime | None:
    """A moment as people write it: ``now``, ``10m ago``, ``in 1h``, ``-10m``, ``+1h``, ISO 8601, milliseconds since 1970."""
    text = text.strip()
    if not text:
        return None
    if text == "now":
        return now
    try:
        if _MILLISECONDS.fullmatch(text):
            return _EPOCH + timedelta(milliseconds=int(text))
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            return _relative_moment(text, now, what)
        return (at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except OverflowError:
        raise BadInput(f"{what}: {text[:40]!r} lies before the year 1 or beyond 9999.") from None


def _relative_moment(text: str, now: datetime, what: str) -> datetime:
    found = _RELATIVE_TIME.fullmatch(text)
    if found is None:
        raise BadInput(f"{what}: {text[:40]!r} is not a time; write it as in 10m ago, in 1h, or 2027-01-15T08:00.")
    span = timedelta(microseconds=duration_us(found["span"].strip(), what))
    return now - span if found["past"] or found["ago"] else now + span


def return_path(root: str, path: str) -> str:
    """The path to return to after a form: one inside of the dashboard, whatever the form says."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return root + path if inside else root + "/"


def base_of(request: Request) -> str:
    """The path of the cookies, for all namespaces."""
    return quote(str(request.scope.get(BASE_KEY, request.scope.get("root_path", ""))).rstrip("/"))
