"""Long lists in pages, chosen by the query alone: ``q`` filters by a text, ``sort`` names a column, ``from`` is the first row.

    found ── q ──▶ those that match ── sort ──▶ in order ── from ──▶ one page

The same query works without the script, in a bookmark, and for live updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tarry.errors import BadInput
from tarry.programs.dashboard.page_request import PageRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """The rows of one page, and where they stand in the list."""

    shown: Sequence[T]
    first: int
    size: int
    matching: int
    text: str
    sort: str
    sorts: tuple[str, ...]


def list_page(
    visit: PageRequest,
    found: Sequence[T],
    *,
    size: int,
    text_of: Callable[[T], str],
    sorts: Mapping[str, Callable[[T], Any]],
) -> ListPage[T]:
    """The page that the query asks for. The first of ``sorts`` is the default. Raises ``BadInput``."""
    text, sort = visit.parameter("q"), visit.parameter("sort") or next(iter(sorts))
    if sort not in sorts:
        raise BadInput(f"sort: {sort[:40]!r} is unknown; it is one of {', '.join(sorts)}.")
    matching = [one for one in found if text.lower() in text_of(one).lower()]
    matching.sort(key=sorts[sort])
    first = max(min(_number(visit.parameter("from")), len(matching) - 1), 0)
    return ListPage(matching[first : first + size], first, size, len(matching), text, sort, tuple(sorts))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0
