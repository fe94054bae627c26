"""The sections of the dashboard. Each module of pages has ``SECTIONS``, ``DOWNLOADS`` or ``ACTIONS``, and is named in PAGES.

    SECTIONS = (Section("/queues", "queues.html", view, title="Delayed queues"),)
    ACTIONS = (Action("clear-queue", "Clear", plan, do, destroys=True),)

A view is awaited with a ``PageRequest`` and returns the variables of its template. It changes nothing, and may be called every
second. The template extends ``page.html`` and fills the block ``view``, which live updates send again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.responses import Response

    from tarry.programs.dashboard.forms import ActionPlan, Form
    from tarry.programs.dashboard.page_request import PageRequest

PAGES = (
    "tarry.programs.dashboard.pages.overview",
    "tarry.programs.dashboard.pages.find_page",
    "tarry.programs.dashboard.pages.topic_page",
    "tarry.programs.dashboard.pages.jobs_page",
    "tarry.programs.dashboard.pages.dead_page",
    "tarry.programs.dashboard.pages.job_page",
    "tarry.programs.dashboard.pages.job_actions",
    "tarry.programs.dashboard.pages.job_form",
    "tarry.programs.dashboard.pages.schedule_pages",
    "tarry.programs.dashboard.pages.workers_page",
    "tarry.programs.dashboard.pages.queue_pages",
    "tarry.programs.dashboard.pages.maps_and_locks",
    "tarry.programs.dashboard.pages.server_page",
)
"""In the order of the navigation."""


@dataclass(frozen=True, slots=True)
class Section:
    """A page: its ``path`` below the dashboard, its update interval ``every_s``, and its ``title`` in the navigation.

    With ``every_s=0`` it is not live. With ``admin`` it is for those who may act. With ``kinds`` of objects that are found by a scan it is
    in the navigation once there is such an object (key_scanner.py).
    """

    path: str
    template: str
    view: Callable[[PageRequest], Awaitable[dict[str, Any]]]
    title: str = ""
    every_s: float = 2.0
    admin: bool = False
    kinds: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Download:
    """A file that a page links to."""

    path: str
    respond: Callable[[PageRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Action:
    """An action. ``plan`` returns what it would do; ``do`` executes it and returns a note about the result.

    An action needs a confirmation when it ``destroys``, or when its plan concerns many jobs.
    """

    name: str
    label: str
    plan: Callable[[PageRequest, Form], Awaitable[ActionPlan]]
    do: Callable[[PageRequest, Form], Awaitable[str]]
    destroys: bool = False


def sections() -> tuple[Section, ...]:
    return tuple(section for part in _page_modules() for section in getattr(part, "SECTIONS", ()))


def downloads() -> tuple[Download, ...]:
    return tuple(part for module in _page_modules() for part in getattr(module, "DOWNLOADS", ()))


def actions() -> dict[str, Action]:
    return {action.name: action for part in _page_modules() for action in getattr(part, "ACTIONS", ())}


def _page_modules() -> Iterable[Any]:
    return [import_module(name) for name in PAGES]
