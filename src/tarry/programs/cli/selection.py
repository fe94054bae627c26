"""Selects jobs for a command: by their ids, or by a state and a limit; acts on them in steps, with a progress bar.

With ``--dry-run`` the jobs are only shown, each with its state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tarry.errors import BadInput
from tarry.internal import one_line, perform, server_verbs
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.output import count_text
from tarry.programs.cli.progress import progress
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from datetime import datetime

    from tarry import JobInfo, Topic
    from tarry.internal import JobSearch
    from tarry.types import State, StateFilter

SomeIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The jobs' ids; or --state.")]
STATES = complete_words("delayed", "ready", "reserved", "dead", "retrying", "finished")
StateName = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="Only jobs in this state: delayed, ready, reserved, dead; retrying: delayed, and failed before; or finished: kept as history.",
        show_default=False,
        autocompletion=STATES,
    ),
]
OfTask = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="Only jobs of this task.", show_default=False)
]
WithError = Annotated[
    str | None,
    typer.Option(
        "--error", metavar="TEXT", help="Only jobs with this text in their reason, error or note.", show_default=False
    ),
]
WithText = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="Only jobs with this text in their body.", show_default=False),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="At most this many.", show_default=False)
]
Uncounted = Annotated[bool, typer.Option("--uncounted", help="The attempt does not count.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where no terminal can be asked.")]
Running = Annotated[bool, typer.Option("--running", help="Also stop the runs of those that run.")]
STEP = 500


def confirm_deletion(topic: Topic[Any], state: str | None, limit: int | None, *, yes: bool) -> None:
    """Asks on a terminal before jobs are deleted. Raises ``BadInput`` where nobody can be asked, and ends the command on a no."""
    if yes:
        return
    topic.list(cast("StateFilter | None", state), limit=1)  # raises for an unknown state
    confirm(lambda: (count_jobs(topic, state, limit), f"{state} job" if state else "job"), topic.name, yes=yes)


def confirm(count_them: Callable[[], tuple[int, str]], of: str, *, yes: bool) -> None:
    """The same for jobs that are counted: how many, and what they are called in the singular."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput("yes: it deletes jobs, and there is no terminal to ask; give --yes, or --dry-run to only look.")
    count, what = count_them()
    if count and not typer.confirm(one_line(f"Delete {count_text(count, what)} of {of}?"), err=True):
        typer.echo("nothing was deleted", err=True)
        raise typer.Exit(1)


def count_jobs(topic: Topic[Any], state: str | None, limit: int | None) -> int:
    """How many jobs a command would act on. Raises ``BadInput`` for an unknown state."""
    now = perform(topic, server_verbs(topic).stats())
    if state is None:
        found = now.delayed + now.ready + now.reserved + now.dead
    else:
        topic.list(cast("StateFilter", state), limit=1)  # raises for an unknown state
        found = now.finished_kept if state == "finished" else getattr(now, state)
    return min(found, limit or found)


def count_listed(topic: Topic[Any], state: str | None, after: datetime | None, before: datetime | None) -> int | None:
    """How many jobs a list without a search has; ``None`` where nothing counts them."""
    if after is None and before is None:
        return count_jobs(topic, state, None)
    if state == "retrying":
        return None

    def due_before(moment: datetime) -> int:
        return topic.histogram(start=moment, span=1, buckets=1).before

    now = topic.stats()
    due = [now.delayed + now.ready if before is None else due_before(before), 0 if after is None else due_before(after)]
    if state == "ready":
        due = [min(count, now.ready) for count in due]
    elif state == "delayed":
        due = [max(count, now.ready) for count in due]
    return max(due[0] - due[1], 0)


def topic_for(session: CommandSession, topic: str, ids: Sequence[str] | None, state: str | None) -> Topic[Any]:
    """The topic for a command on jobs by id, or on all in a state. Only for a state an unknown topic is refused."""
    return session.topic(topic) if ids or state is None else session.known_topic(topic)


def check_selection(topic: str, ids: Sequence[str] | None, option: str, *, given: bool) -> None:
    """Raises ``BadInput`` unless jobs are selected in one of both ways: by ids, or by an option."""
    if ids and given:
        raise BadInput(f"ids: give ids, or {option}.")
    if not ids and not given:
        raise BadInput(f"ids: {topic!r} is read as the topic, and none follow; give ids, or {option}.")


def choose_ids(topic: Topic[Any], ids: Sequence[str] | None, state: str | None, limit: int | None) -> list[str]:
    """The ids of the selected jobs. Raises ``BadInput``."""
    check_selection(topic.name, ids, "--state for all jobs in a state", given=state is not None)
    if ids:
        return list(ids[:limit])
    return [job.id for job in list_jobs(topic, state, limit)]


def list_jobs(
    topic: Topic[Any], state: str | None, limit: int | None, search: JobSearch | None = None
) -> Iterator[JobInfo[Any]]:
    """The jobs in a state, or all, page by page; of a search those that match."""
    cursor: str | None = None
    left = limit
    with progress(f"{topic.name}: looking", lambda: count_jobs(topic, state, None if search else limit)) as advance:
        while left is None or left > 0:
            page_size = min(left or 1000, 1000)
            step = server_verbs(topic).list(cast("StateFilter | None", state), None, None, page_size, cursor, search)
            page = perform(topic, step)  # never from a replica: a command acts on the answer
            yield from page
            advance(page.scanned or len(page))
            left = None if left is None else left - len(page)
            cursor = page.cursor
            if cursor is None:
                break


def act_on_each(
    session: CommandSession,
    topic: Topic[Any],
    ids: Sequence[str],
    action: Callable[[Sequence[str]], list[State | None]],
    text: str,
    *,
    dry_run: bool,
    named: bool = False,
    left_alone: Mapping[str, str] = {},
) -> None:
    """Acts on all jobs, and prints for each the state it was in (``{was}`` in ``text``). If the caller ``named`` the ids, one that is
    unknown, or in a state that the action leaves alone, ends the command with 1, after the others. ``left_alone``: such states, and
    what to do instead."""
    seen = set[str | None]()
    with progress(topic.name, len(ids)) as advance:
        for at in range(0, len(ids), STEP):
            step = ids[at : at + STEP]
            if dry_run:
                for id, job in zip(step, topic.get_many(step), strict=True):
                    state = None if job is None else job.state
                    seen.add(state)
                    session.print_answer({"id": id, "state": state}, f"{id}  {state or 'unknown'}")
            else:
                for id, was in zip(step, action(step), strict=True):
                    seen.add(was)
                    told = (
                        "unknown" if was is None else f"{was}, unchanged" if was in left_alone else text.format(was=was)
                    )
                    session.print_answer({"id": id, "was": was}, f"{id}  {told}")
            if not sys.stdout.isatty():  # on a terminal the answers show the progress, and would disturb the bar
                advance(len(step))
    notes = [instead for state, instead in left_alone.items() if state in seen]
    if named and None in seen:
        notes.append(
            f"an unknown job was finished or deleted, or never added; `tarry list {topic.name}` shows those that there are."
        )
    for note in notes:
        session.print_note(note)
    if named and notes:
        raise typer.Exit(1)
