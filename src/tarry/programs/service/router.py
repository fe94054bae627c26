"""The table of routes. A module of rows has a table of its own, and is named in ``routes.py``; there is nothing else to do:

    table = Table("locks")

    @table.row("GET", "/v1/locks/{name}", may=ANY, gives=LockShown, example=Example(answer=LockShown(…)))
    async def look(x: Exchange) -> LockShown:
        "Who holds a lock, and for how long."         (the docstring is what OpenAPI and the reference page say)
        return shown(await x.client.lock(x.path["name"]).info())

A handler answers a model, ``None`` (204), or a Starlette response for what is no JSON.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints
from urllib.parse import unquote

import msgspec

from tarry.errors import BadInput
from tarry.programs.service import integers

if TYPE_CHECKING:
    from tarry.programs.service.problems import Problem
    from tarry.programs.service.request import ServiceRequest

Scope = Literal["view", "produce", "consume", "admin"]
PRODUCE: frozenset[Scope] = frozenset({"produce", "admin"})
CONSUME: frozenset[Scope] = frozenset({"consume", "admin"})
VIEW: frozenset[Scope] = frozenset({"view", "consume", "admin"})
"""Whoever may look through what lies there, bodies too, as the dashboard shows it."""
ADMIN: frozenset[Scope] = frozenset({"admin"})
ANY_SCOPE: frozenset[Scope] = frozenset({"view", "produce", "consume", "admin"})
"""Any token will do."""
NO_TOKEN: frozenset[Scope] = frozenset()
"""No token is asked for."""

NOT_WHOLE = "got `float`"
Handler = Callable[["ServiceRequest"], Awaitable[Any]]
Decode = Callable[[bytes], Any]
_PATH_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Example:
    """One exchange as the documents show it."""

    request: Any = None
    answer: Any = None
    path: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """One route."""

    tag: str
    method: str
    path: str
    handler: Handler
    scopes: frozenset[Scope]
    """The scopes of which a token must have one."""
    body_model: Any = None
    """The model of the JSON body."""
    reads_body: bool = False
    """The handler reads the body itself: it may be something else than JSON."""
    forms: bool = False
    """What it takes may be a form as well."""
    query_model: Any = None
    """The model of the query."""
    answer_model: Any = None
    """The model of the answer; ``None``: 204."""
    or_null: bool = False
    """Or the answer is ``null``."""
    media: str = "application/json"
    status: int = 200
    other_statuses: Mapping[int, str] = field(default_factory=dict)
    """Other statuses of success, and what they mean."""
    problem_codes: tuple[str, ...] = ()
    """Codes of problems besides those that every route has."""
    example: Example = field(default_factory=Example)
    jobs: Callable[[Any], int] | None = None
    """How many jobs a body of the model puts in or asks for, for limits; one, where nothing is said."""
    while_draining: bool = False
    any_method: bool = False
    """It is asked by whatever method; the documents show this one."""
    problem_answer: Callable[[Problem], Any] | None = None
    """What is answered, with 200, in the place of a problem: for clients that know no other status."""
    makes: tuple[str, ...] = ()
    """Which of the names in its path may be new, and so are neither ``.`` nor ``..``."""
    answers_head: bool = True
    """A GET that changes nothing, and so answers HEAD too."""
    namespaced: bool = True
    """It is about one namespace: the one that the query or the token names."""
    namespace: str = ""
    """It is about this one, whatever is said."""
    decode: Decode = field(default=lambda _: None, repr=False)
    decode_query: Callable[[Mapping[str, str]], Any] = field(default=lambda _: None, repr=False)
    name: str = field(init=False)
    """The operation's name, the same in OpenAPI and in metrics."""
    path_names: tuple[str, ...] = field(init=False)
    """What stands in braces in the path."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.tag}_{self.handler.__name__}")
        object.__setattr__(self, "path_names", tuple(_PATH_NAME.findall(self.path)))

    @property
    def summary(self) -> str:
        return " ".join((inspect.getdoc(self.handler) or "").split())


class RouteTable:
    """The rows of one module."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Route] = []

    def route(
        self, method: str, path: str, *, scopes: frozenset[Scope], **options: Any
    ) -> Callable[[Handler], Handler]:
        """Makes a row of a handler. Everything else that a row has is given by its name."""

        def register(handler: Handler) -> Handler:
            body_model, query_model = options.get("body_model"), options.get("query_model")
            decoders: dict[str, Any] = {}
            if body_model is not None:
                decoders["decode"] = partial(_of_json, msgspec.json.Decoder(body_model).decode, body_model)
            if query_model is not None:
                decoders["decode_query"] = partial(_of_query, query_model, _texts_of(query_model))
            self.routes.append(Route(self.tag, method, path, handler, scopes, **options, **decoders))
            return handler

        return register


def _texts_of(model: Any) -> frozenset[str]:
    """The fields that may be any text."""
    hints = get_type_hints(model)  # without what is annotated
    return frozenset(name for name, kind in hints.items() if str in (kind, *get_args(kind)))


def _of_query(model: Any, texts: frozenset[str], query: Mapping[str, str]) -> Any:
    for name, text in query.items():
        if name not in texts and text.lower() == "null":  # which would pass for nothing
            raise BadInput(f"query: {name} is null; leave it out.")
    return msgspec.convert(query, type=model, strict=False)


def _of_json(decode: Decode, model: Any, raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as fault:
        if NOT_WHOLE not in str(fault):
            raise
        return decode(integers.without_points(raw, model))  # 7.0 is a whole number in JSON


def one_job(_: Any) -> int:
    """For ``jobs=``: the request is about one job."""
    return 1


def count_n(payload: Any) -> int:
    """It asks for ``n``."""
    return int(payload.n)


def count_items(field: str) -> Callable[[Any], int]:
    """It gives a list of them."""
    return lambda payload: len(getattr(payload, field))


class PathNode:
    """One step of the way from a path to its row."""

    __slots__ = ("fixed", "parameter", "routes")

    def __init__(self) -> None:
        self.fixed: dict[str, PathNode] = {}
        self.parameter: PathNode | None = None
        self.routes: dict[str, Route] = {}


class PathTree:
    """Finds rows by the segments of a path, each decoded on its own: a topic may hold a slash (written %2F)."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = PathNode()
        for route in routes:
            node = self._root
            for part in route.path.split("/")[1:]:
                if part.startswith("{"):
                    node.parameter = node.parameter or PathNode()
                    node = node.parameter
                else:
                    node = node.fixed.setdefault(part, PathNode())
            if route.method in node.routes:
                raise AssertionError(f"two rows for {route.method} {route.path}")
            node.routes[route.method] = route

    def find(self, raw_path: str) -> tuple[dict[str, Route], list[str]] | None:
        """The rows of a path by their methods, and what stands in its braces; ``None`` where there is no such path."""
        node, found = self._root, list[str]()
        for part in raw_path.split("/")[1:]:
            below = node.fixed.get(part)
            if below is None:
                below = node.parameter
                if below is None or not part:
                    return None
                found.append(unquote_segment(part))
            node = below
        return (node.routes, found) if node.routes else None


def unquote_segment(part: str) -> str:
    """A segment of a path as it was meant; ``BadInput`` where that is no UTF-8."""
    if "%" not in part:
        return part
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"path: {part!r} is not UTF-8, percent-encoded.") from None
