"""Commands on jobs by their ids: get, list, delete, kick, reschedule. None needs a receipt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tarry.errors import BadInput
from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import Id, Ids, TopicName, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.job_commands import At, Delay
from tarry.programs.cli.selection import (
    DryRun,
    Limit,
    OfTask,
    Running,
    SomeIds,
    StateName,
    Uncounted,
    WithError,
    WithText,
    act_on_each,
    check_selection,
    choose_ids,
    count_listed,
    list_jobs,
    topic_for,
)
from tarry.programs.cli.session import WAITING, CommandSession, dumps

if TYPE_CHECKING:
    from tarry import JobInfo
    from tarry.types import StateFilter


@verb()
def delete(session: CommandSession, topic: TopicName, ids: Ids, running: Running = False) -> None:
    """Deletes jobs by their ids, whatever their state; prints the state. Exits with 1 if one is unknown."""
    handle = session.topic(topic)
    act_on_each(
        session,
        handle,
        ids,
        lambda step: handle.delete_many(step, running=running),
        "deleted, was {was}",
        dry_run=False,
        named=True,
    )


_NOT_DEAD = {
    "delayed": "delayed jobs wait until they are due; `tarry reschedule {topic} ID --delay 0` makes one due now.",
    "ready": "ready jobs are due, and the next pop hands them out.",
    "reserved": "reserved jobs run; `tarry release {topic} ID RECEIPT --delay 0` puts one back.",
    "finished": "finished jobs are history, and only shown; add the job again.",
}


@verb()
def kick(
    session: CommandSession,
    topic: TopicName,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The jobs' ids; or --all.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All dead jobs of the topic.")] = False,
    limit: Limit = None,
    dry_run: DryRun = False,
) -> None:
    """Makes dead jobs ready again. Exits with 1 if an id is unknown, or its job is not dead."""
    check_selection(topic, ids, "--all for all dead jobs", given=all)
    state = "dead" if all else None
    handle = topic_for(session, topic, ids, state)
    chosen = choose_ids(handle, ids, state, limit)
    left_alone = {state: instead.format(topic=topic) for state, instead in _NOT_DEAD.items()}
    act_on_each(
        session,
        handle,
        chosen,
        handle.kick_many,
        "was {was}",
        dry_run=dry_run,
        named=bool(ids),
        left_alone=left_alone,
    )


WaitingState = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="All jobs in this state: delayed, ready, or retrying: delayed, and failed before.",
        show_default=False,
        autocompletion=complete_words("delayed", "ready", "retrying"),
    ),
]
_NOT_WAITING = {
    "reserved": "reserved jobs run and have no due time; `tarry release {topic} ID RECEIPT --delay DURATION` puts one back, to be due later.",
    "dead": "dead jobs do not wait and have no due time; `tarry kick {topic} ID` makes one ready, `tarry kick {topic} --all` all.",
    "finished": "finished jobs are history, and only shown; `tarry purge {topic} --state finished` deletes it.",
}


@verb()
def reschedule(
    session: CommandSession,
    topic: TopicName,
    ids: SomeIds = None,
    delay: Delay = None,
    at: At = None,
    state: WaitingState = None,
    limit: Limit = None,
    dry_run: DryRun = False,
) -> None:
    """Gives waiting jobs another due time. Exits with 1 if an id is unknown, or its job does not wait."""
    left_alone = {state: instead.format(topic=topic) for state, instead in _NOT_WAITING.items()}
    if instead := left_alone.get(state or ""):
        raise BadInput(f"state: {instead}")
    handle, moment = topic_for(session, topic, ids, state), arguments.parse_moment(at, "at")
    if delay is None and moment is None:
        raise BadInput("reschedule: give --delay or --at.")
    act_on_each(
        session,
        handle,
        choose_ids(handle, ids, state, limit),
        lambda step: handle.reschedule_many(step, delay=delay, at=moment),
        "was {was}",
        dry_run=dry_run,
        named=bool(ids),
        left_alone=left_alone,
    )


@verb(name="release-holder")
def release_holder(
    session: CommandSession,
    topic: TopicName,
    holder: Annotated[
        str, typer.Argument(metavar="HOLDER", help="The holder's name, as get shows it.", show_default=False)
    ],
    uncounted: Uncounted = False,
    limit: Limit = None,
    dry_run: DryRun = False,
) -> None:
    """Releases at once all jobs of a process that is certainly dead."""
    handle = session.topic(topic)
    if dry_run:
        held = (job for job in list_jobs(handle, "reserved", None) if job.holder == holder)
        for job in islice(held, limit):
            session.print_answer({"id": job.id, "state": job.state}, f"{job.id}  {job.state}")
        return
    found = handle.release_holder(holder, counted=not uncounted, limit=limit)
    session.print_answer({"topic": topic, "holder": holder, "released": found}, f"{topic}  {found} jobs released")


@verb()
def get(session: CommandSession, topic: TopicName, ids: Ids) -> None:
    """Shows jobs by id; null for an unknown id. Exits with 1 if one is unknown."""
    found = session.topic(topic).get_many(ids)
    for id, job in zip(ids, found, strict=True):
        if job is None:
            session.print_answer(None, f"{id}  unknown")
        else:
            data = output.job_data(job)
            session.print_answer(data, *(line for name, value in data.items() for line in _lines(name, value)))
    if None in found:
        raise typer.Exit(1)


@verb()
def result(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait until the job is finished, or: forever.")
    ] = "0",
) -> None:
    """Shows the result of a finished job as JSON; its topic or task keeps finished jobs. Exits with 1 if there is none."""
    if wait != "0":
        session.usual_patience = WAITING
    found = session.topic(topic).result(id, wait=arguments.parse_wait(wait))
    session.print_answer({"id": id, "result": found}, dumps(found))


def _lines(name: str, value: object) -> list[str]:
    """A field of a job: a traceback has several lines, all other text has one."""
    text = value if isinstance(value, str) else dumps(value)
    first, *more = text.split("\n") if name == "error" else [text]
    return [f"{name:<14} {first}", *(f"{'':<14} {line}" for line in more)]


@verb(name="list")
def _list(
    session: CommandSession,
    topic: TopicName,
    state: StateName = None,
    due_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Due then or later.", show_default=False)
    ] = None,
    due_before: Annotated[str | None, typer.Option(metavar="TIME", help="Due before then.", show_default=False)] = None,
    task: OfTask = None,
    error: WithError = None,
    text: WithText = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most this many.")] = 100,
) -> None:
    """Lists jobs by time: when due, when their time to run ends, when they died or finished. On a terminal as a table, with task, body and error."""
    from tarry.internal import JobSearch, server_verbs

    after, before = arguments.parse_moment(due_after, "due_after"), arguments.parse_moment(due_before, "due_before")
    chosen = cast("StateFilter | None", state)
    server_verbs(session.topic(topic)).check_filter(chosen, after, before)  # before an unknown topic is refused
    JobSearch(task, error, text).check(None)
    handle, cursor, left, looked_at = session.known_topic(topic), None, limit, 0
    table: list[JobInfo[Any]] = []
    while left:
        page = handle.list(
            chosen,
            due_after=after,
            due_before=before,
            task=task,
            error=error,
            text=text,
            limit=min(left, 1000),
            cursor=cursor,
        )
        if not session.json and sys.stdout.isatty():
            table += page
            page_lines: Sequence[JobInfo[Any]] = ()
        else:
            page_lines = page.jobs
        for job in page_lines:
            when = output.rfc3339(output.state_moment(job))
            why = "".join(f"  {part}" for part in (job.reason, output.last_error_line(job)) if part)
            session.print_answer(
                partial(output.job_data, job),
                f"{job.id}  {job.state:<8}  {when}  attempts {job.attempts}{output.key_text(job)}{why}",
            )
        left, cursor, looked_at = left - len(page), page.cursor, looked_at + page.scanned
        if cursor is None:
            break
    if table:
        from tarry.programs.cli.job_table import print_jobs

        print_jobs(table, handle.stats().now)
    elif not session.json and sys.stdout.isatty():
        session.print_note("there are no such jobs")
    if cursor is None:
        return
    searches = not (task is error is text is None)
    total = None if searches else count_listed(handle, state, after, before)
    if total is not None and total > limit:
        session.print_note(output.more_note(limit, total, "job"))
    elif total is None:
        among = f" among the first {looked_at:,}" if searches else ""
        session.print_note(f"{limit:,} found{among}; a higher --limit looks for more")
