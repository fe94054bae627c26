"""Routes, and how a path is matched. A module of routes has a ``RouteTable``, which the service names in ``routes/__init__.py``, or a mount:

    table = RouteTable("locks")

    @table.handles(endpoints.LOOK)
    async def look(request: ServiceRequest) -> LockState:
        "Who holds a lock, and for how long."                 (the docstring goes into OpenAPI and the reference page)
        return await request.client.lock(request.path["name"]).state()

A handler returns what its schema makes a model of, ``None`` (204), or one of ``responses.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from tarry.errors import BadInput
from tarry.programs.serving import compression
from tarry.programs.serving.decoders import Decode, decoder, query_decoder
from tarry.wire.endpoint import Endpoint, Scope
from tarry.wire.schemas import NOTHING, Schema

if TYPE_CHECKING:
    from tarry.programs.serving.problems import Problem

Handler = Callable[[Any], Awaitable[Any]]
"""Of a ``ServiceRequest``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Endpoint[Any]):
    """An endpoint with its handler."""

    tag: str
    handler: Handler
    any_method: bool = False
    """Whether it answers any method; the documents show ``method``."""
    answers_head: bool = True
    """If it is a GET it also answers HEAD, because it changes nothing."""
    namespace: str = ""
    """The namespace that it is about, whatever the request says."""
    problem_answer: Callable[[Problem], Any] | None = None
    """Turns a problem into an answer with the route's status, for clients that know no other status."""
    name: str = ""
    """The name of the operation in OpenAPI and in metrics; without one it is made of the handler's."""
    description: str = ""
    """For the documents; without it the handler's docstring."""
    is_compressed: bool = field(init=False, repr=False)
    """Its answers may be compressed."""
    decode: Decode = field(repr=False)
    decode_query: Callable[[Mapping[str, str]], Any] = field(repr=False)
    empty_query: Any = field(init=False, repr=False, default=None)
    """The query model of a request without a query; ``None`` where the query lacks something then."""

    def __post_init__(self) -> None:
        Endpoint.__post_init__(self)
        name = self.name or self.handler.__name__.removesuffix("_" + self.tag)  # that of many_add is add_many
        object.__setattr__(self, "name", f"{self.tag}_{name}")
        object.__setattr__(self, "is_compressed", compression.is_compressed_route(self.method, self.path, self.tag))
        with suppress(msgspec.ValidationError):
            object.__setattr__(self, "empty_query", self.decode_query({}))
        object.__setattr__(self, "description", self.description or inspect.getdoc(self.handler) or "")

    @property
    def answer_model(self) -> Any:
        return self.returns.model if isinstance(self.returns, Schema) else self.returns

    def dump(self, answer: Any) -> Any:
        """The model of an answer: what the schema makes of a value of the library."""
        return (
            self.returns.dump(answer)
            if not isinstance(answer, msgspec.Struct) and isinstance(self.returns, Schema)
            else answer
        )

    @property
    def summary(self) -> str:
        return " ".join(self.description.split())


class RouteTable:
    """The routes of one module."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Route] = []

    def handles(self, endpoint: Endpoint[Any], **options: Any) -> Callable[[Handler], Handler]:
        """Decorates the handler of an endpoint. ``options`` are further fields of ``Route``."""
        given = {one.name: getattr(endpoint, one.name) for one in fields(endpoint) if one.init}
        return self.route(**given, **options)

    def route(
        self, method: str, path: str, *, scopes: frozenset[Scope], returns: Any = NOTHING, **options: Any
    ) -> Callable[[Handler], Handler]:
        """Decorates a handler whose endpoint no client of the library has. ``options`` are further fields of ``Route``."""

        def register(handler: Handler) -> Handler:
            decode = decoder(options.get("body_model"))
            decode_query = query_decoder(options.get("query_model"))
            route = Route(
                method,
                path,
                tag=self.tag,
                handler=handler,
                scopes=scopes,
                returns=returns,
                decode=decode,
                decode_query=decode_query,
                **options,
            )
            self.routes.append(route)
            return handler

        return register


class PathNode:
    """A node of the tree: one segment of a path."""

    __slots__ = ("fixed", "parameter", "routes")

    def __init__(self) -> None:
        self.fixed: dict[str, PathNode] = {}
        self.parameter: PathNode | None = None
        self.routes: dict[str, Route] = {}


FoundPath = tuple[dict[str, "Route"], Sequence[str]]
"""The routes of a path by method, and the values of its parameters."""
MOST_KNOWN, LONGEST_KNOWN = 1000, 200
"""How many paths with one parameter are remembered, and of how many characters at most. Those with the id of a job are too many."""


class PathTree:
    """Finds routes by the segments of a path, each decoded on its own: a topic may contain a slash (as %2F)."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = PathNode()
        self._known: dict[bytes, FoundPath] = {}
        for route in routes:
            node = self._root
            for part in route.path.split("/")[1:]:
                if part.startswith("{"):
                    node.parameter = node.parameter or PathNode()
                    node = node.parameter
                else:
                    node = node.fixed.setdefault(part, PathNode())
            if route.method in node.routes:
                raise AssertionError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route

    def find(self, raw_path: bytes) -> FoundPath | None:
        """Finds the routes of a path; ``None`` if no route has it."""
        return self._known[raw_path] if raw_path in self._known else self._search(raw_path)

    def _search(self, raw_path: bytes) -> FoundPath | None:
        node, found = self._root, list[str]()
        for part in raw_path.decode("latin-1").split("/")[1:]:
            child = node.fixed.get(part)
            if child is None:
                child = node.parameter
                if child is None or not part:
                    return None
                found.append(unquote_segment(part))
            node = child
        if not node.routes:
            return None
        if len(found) == 1 and len(raw_path) <= LONGEST_KNOWN:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[raw_path] = node.routes, found
        return node.routes, found


def unquote_segment(part: str) -> str:
    """Decodes a segment of a path. Raises ``BadInput`` if it is not UTF-8."""
    if "%" not in part:
        return part
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"path: {part!r} is not UTF-8, percent-encoded.") from None
