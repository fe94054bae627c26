"""The parts of the dashboard. A feature brings a module with its ``SECTIONS`` and ``ACTIONS``, and is named in PARTS.

    SECTIONS = (Section("/queues", "queues.html", view, title="Delayed queues"),)
    ACTIONS = (Action("clear-queue", "Clear", plan, do, destroys=True),)

A view is awaited with a ``Visit`` and answers what its template shows; it looks and changes nothing, and may be called every
second. Its template extends ``page.html`` and fills the block ``view``, which is what live readers are sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarry.programs.dashboard.action_handler import ActionPlan, Form
    from tarry.programs.dashboard.visit import Visit

PARTS = (
    "overview",
    "topic",
    "jobs",
    "job",
    "search",
    "job_actions",
    "schedules",
    "workers",
    "queues",
    "maps",
    "locks",
    "server",
)
"""In the order of the navigation."""


@dataclass(frozen=True, slots=True)
class Section:
    """A page: ``path`` below the dashboard, shown again every ``every_s`` to who watches. ``title``: in the navigation."""

    path: str
    template: str
    view: Callable[[Visit], Awaitable[dict[str, Any]]]
    title: str = ""
    every_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done. ``plan`` tells what would happen, now; ``do`` does it and says what came of it.

    It is asked for first when it ``destroys``, or when the plan says that it concerns many.
    """

    name: str
    label: str
    plan: Callable[[Visit, Form], Awaitable[ActionPlan]]
    do: Callable[[Visit, Form], Awaitable[str]]
    destroys: bool = False


def sections() -> tuple[Section, ...]:
    return tuple(section for part in _parts() for section in getattr(part, "SECTIONS", ()))


def actions() -> dict[str, Action]:
    return {action.name: action for part in _parts() for action in getattr(part, "ACTIONS", ())}


def _parts() -> Iterable[Any]:
    return [import_module(f"tarry.programs.dashboard.pages.{name}") for name in PARTS]
