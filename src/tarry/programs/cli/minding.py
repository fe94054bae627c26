"""Jobs by their ids: looked at, moved, deleted. No receipt is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tarry.programs.cli import answers, reading
from tarry.programs.cli.jobs import At, Delay
from tarry.programs.cli.register import Ids, TopicName, verb
from tarry.programs.cli.session import Session, dumps

if TYPE_CHECKING:
    from tarry.verbs.jobs.shapes import State

StateName = Annotated[
    str | None, typer.Option("--state", help="Only these: delayed, ready, reserved or dead.", show_default=False)
]


def _states(session: Session, ids: Sequence[str], states: Sequence[State | None], word: str) -> None:
    for id, state in zip(ids, states, strict=True):
        words = "unknown" if state is None else word.format(was=state)
        session.tell({"id": id, "was": state}, f"{id}  {words}")


@verb()
def delete(session: Session, topic: TopicName, ids: Ids) -> None:
    """Deletes jobs, whatever their state; says what it was."""
    _states(session, ids, session.topic(topic).delete_many(ids), "deleted, was {was}")


@verb()
def kick(session: Session, topic: TopicName, ids: Ids) -> None:
    """Makes dead jobs ready again."""
    _states(session, ids, session.topic(topic).kick_many(ids), "was {was}")


@verb()
def reschedule(session: Session, topic: TopicName, ids: Ids, delay: Delay = None, at: At = None) -> None:
    """Gives waiting jobs another due time."""
    states = session.topic(topic).reschedule_many(ids, delay=delay, at=reading.moment(at, "at"))
    _states(session, ids, states, "was {was}")


@verb()
def get(session: Session, topic: TopicName, ids: Ids) -> None:
    """Shows jobs as they are, null for an unknown id."""
    for id, job in zip(ids, session.topic(topic).get_many(ids), strict=True):
        if job is None:
            session.tell(None, f"{id}  unknown")
        else:
            said = answers.info(job)
            session.tell(said, "\n".join(f"{name:<14} {_shown(value)}" for name, value in said.items()))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


@verb(name="list")
def _list(
    session: Session,
    topic: TopicName,
    state: StateName = None,
    due_after: Annotated[str | None, typer.Option(help="Due then or later.", show_default=False)] = None,
    due_before: Annotated[str | None, typer.Option(help="Due before then.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
) -> None:
    """Shows jobs in order of time: due, end of their TTR, death."""
    place, cursor, left = session.topic(topic), None, limit
    after, before = reading.moment(due_after, "due_after"), reading.moment(due_before, "due_before")
    while left:
        page = place.list(
            cast("State | None", state), due_after=after, due_before=before, limit=min(left, 1000), cursor=cursor
        )
        for job in page:
            when = answers.rfc3339(job.due or job.reserved_until or job.died)
            session.tell(answers.info(job), f"{job.id}  {job.state:<8}  {when}  attempts {job.attempts}")
        left, cursor = left - len(page), page.cursor
        if cursor is None:
            return
    session.note(f"there are more; --limit {limit * 10} shows them")
