"""Commands that add, pop and settle jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET, structs

from tarry.errors import BadInput
from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import Id, Receipt, TopicName, TopicNames, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.selection import Limit, Uncounted
from tarry.programs.cli.session import WAITING, CommandSession, dumps

if TYPE_CHECKING:
    from tarry import Added
    from tarry.types import BaseJob

Ttr = Annotated[str | None, typer.Option(metavar="DURATION", help="Time to run, such as 30s.", show_default=False)]
At = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Due at this moment, such as 2026-02-03T04:05:06Z.", show_default=False),
]
Delay = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Due after this time, such as 10m, 1h30m or 1.5.", show_default=False),
]


@verb()
def add(
    session: CommandSession,
    topic: TopicName,
    body: Annotated[str | None, typer.Argument(metavar="[BODY]", help="JSON; plain text with --raw.")] = None,
    delay: Delay = None,
    at: At = None,
    id: Annotated[
        str | None, typer.Option(metavar="ID", help="The job's id. Default: a new one.", show_default=False)
    ] = None,
    if_exists: Annotated[
        str,
        typer.Option(
            metavar="ACTION",
            help="When the id is taken: error, keep, once, replace or update.",
            autocompletion=complete_words("error", "keep", "once", "replace", "update"),
        ),
    ] = "error",
    latest: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="With replace: due at most this long after the first event.", show_default=False
        ),
    ] = None,
    ttr: Ttr = None,
    max_attempts: Annotated[
        str | None,
        typer.Option(metavar="N", help="After this many attempts it is dead; none: no limit.", show_default=False),
    ] = None,
    max_lateness: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Buried as too late if it is later than this.", show_default=False),
    ] = None,
    priority: Annotated[
        int, typer.Option(metavar="N", help="0 to 3: of the jobs that are due, the highest is handed out first.")
    ] = 0,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A word such as customer-7: the topic's limits for keys count the jobs of each.",
            show_default=False,
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="name=value; may be repeated.", show_default=False)
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='Many jobs, one a line: {"body": …, "id": …, "delay": …}; - is stdin.',
            show_default=False,
        ),
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Wait until this many replicas have it, or: fsynced.", show_default=False),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="The number of partitions of a new topic; it cannot be changed.", show_default=False
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Bodies are plain text.")] = False,
    limit: Limit = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --file: only check every line, and print how many.")
    ] = False,
) -> None:
    """Adds a job, or many from a file."""
    if (body is None) == (file is None):
        raise BadInput("body: give a body, or --file for many.")
    from tarry.internal import JobOptions

    options = JobOptions(
        delay=UNSET if delay is None else delay,
        at=arguments.parse_moment(at, "at"),
        if_exists=arguments.parse_choice(if_exists),
        latest=latest,
        ttr=ttr,
        max_attempts=arguments.parse_limit(max_attempts),
        headers=arguments.parse_headers(header),
        max_lateness=max_lateness,
        priority=priority,
        key=key,
        durability=arguments.parse_durability(durability),
    )
    handle = session.topic(topic, partitions)
    if file is None:
        if dry_run or limit is not None:
            raise BadInput("dry_run, limit: use them with --file.")
        _added(session, handle.add(arguments.parse_body(body or "", raw=raw), id=id, **structs.asdict(options)))
    elif id is not None:
        raise BadInput('id: with --file each line has its own: {"id": …, "body": …}.')
    else:
        from tarry.programs.cli.batch import add_from_file

        for job in add_from_file(session, handle, file, options, raw=raw, limit=limit, dry_run=dry_run):
            _added(session, job)


def _added(session: CommandSession, job: Added) -> None:
    text = job.state if job.is_new else f"was there already, {job.state}"
    moment = "kept until" if job.state == "finished" else "due"
    session.print_answer(lambda: output.added_data(job), f"{job.id}  {text}, {moment} {output.rfc3339(job.due)}")


@verb()
def pop(
    session: CommandSession,
    topics: TopicNames,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for a job, or: forever.")] = "0",
    ttr: Ttr = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most this many.")] = 1,
) -> None:
    """Pops the next due job of the first topic that has one, and shows its receipt."""
    if wait != "0":
        session.usual_patience = WAITING
    jobs = session.client.pop_many(*topics, limit=limit, wait=arguments.parse_wait(wait), ttr=ttr)
    for job in jobs:
        data = output.popped_data(job)
        session.print_answer(data, _job_as_text(job, data))
    if not jobs:
        session.print_note(f"nothing is due in {', '.join(topics)}")


def _job_as_text(job: BaseJob[Any], data: dict[str, Any]) -> str:
    body = dumps(data["body"]) if "body" in data else f"base64 {data['body_base64']}"
    late = f"{output.span_text(job.lateness)} late"
    return f"{job.topic}  {job.id}  receipt {job.receipt}  attempt {job.attempt}, {late}{output.key_text(job)}  {body}"


def _settle(
    session: CommandSession, topic: str, id: str, receipt: int, word: str, how: Callable[[Any, Any], None]
) -> None:
    from tarry import Reservation

    how(session.topic(topic), Reservation(id, receipt))
    session.print_answer({"id": id, "done": word}, f"{id}  {word}")


@verb()
def finish(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="JSON, kept with the job if the topic keeps finished jobs.", show_default=False
        ),
    ] = None,
) -> None:
    """Finishes a job: the work is done, and the job is deleted."""
    given = None if result is None else arguments.parse_body(result, raw=False, what="result")
    _settle(session, topic, id, receipt, "finished", lambda handle, job: handle.finish(job, result=given))


@verb()
def touch(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    ttr: Annotated[str, typer.Option(metavar="DURATION", help="From now on.")] = "60s",
) -> None:
    """Renews the reservation of a job."""
    _settle(session, topic, id, receipt, "touched", lambda handle, job: handle.touch(job, ttr=ttr))


@verb()
def release(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Due again after this time. The default is a back-off that grows with its attempts.",
            show_default=False,
        ),
    ] = None,
    uncounted: Uncounted = False,
) -> None:
    """Releases a reserved job."""
    _settle(
        session,
        topic,
        id,
        receipt,
        "released",
        lambda handle, job: handle.release(job, delay=delay, counted=not uncounted),
    )


@verb()
def bury(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in one line.")] = "",
) -> None:
    """Sets a reserved job aside as dead."""
    _settle(session, topic, id, receipt, "buried", lambda handle, job: handle.bury(job, reason=reason))
