"""Many jobs at once: by their ids, or by a state, at most so many; in steps, with progress for long work.

With ``--dry-run`` they are only shown, with the state each is in now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tarry.errors import BadInput
from tarry.programs.cli.completing import words
from tarry.programs.cli.progress import progress
from tarry.programs.cli.session import Session

if TYPE_CHECKING:
    from tarry.clients.blocking.topic import Topic
    from tarry.verbs.jobs.models import JobInfo, State

SomeIds = Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="The jobs' ids; or --state.")]
STATES = words("delayed", "ready", "reserved", "dead")
StateName = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="Only these: delayed, ready, reserved or dead.",
        show_default=False,
        autocompletion=STATES,
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which.")]
STEP = 500


def chosen(place: Topic[Any], ids: Sequence[str] | None, state: str | None, limit: int | None) -> list[str]:
    """The ids that are meant. Raises ``BadInput``."""
    if bool(ids) == (state is not None):
        raise BadInput("ids: name the jobs, or all of a state with --state.")
    if ids:
        return list(ids[:limit])
    return [job.id for job in listed(place, state, limit)]


def listed(place: Topic[Any], state: str | None, limit: int | None) -> Iterator[JobInfo[Any]]:
    """The jobs of a state, or all, page by page."""
    cursor: str | None = None
    left = limit
    with progress(f"{place.name}: looking", limit) as more:
        while left is None or left > 0:
            step = place.verbs.list(cast("State | None", state), None, None, min(left or 1000, 1000), cursor)
            page = place.engine.run(step)  # no view: a verb goes by it
            yield from page
            more(len(page))
            left = None if left is None else left - len(page)
            cursor = page.cursor
            if cursor is None:
                break


def each(
    session: Session,
    place: Topic[Any],
    ids: Sequence[str],
    act: Callable[[Sequence[str]], list[State | None]],
    words: str,
    *,
    dry_run: bool,
) -> None:
    """Acts on all of them, and tells of each what its state was (``{was}`` in the words)."""
    with progress(place.name, len(ids)) as more:
        for at in range(0, len(ids), STEP):
            step = ids[at : at + STEP]
            if dry_run:
                for id, job in zip(step, place.get_many(step), strict=True):
                    state = None if job is None else job.state
                    session.tell({"id": id, "state": state}, f"{id}  {state or 'unknown'}")
            else:
                for id, was in zip(step, act(step), strict=True):
                    session.tell({"id": id, "was": was}, f"{id}  {'unknown' if was is None else words.format(was=was)}")
            if not sys.stdout.isatty():  # else the answers are progress enough, and would run through the bar
                more(len(step))
