"""Jobs go in, come out, and are settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tarry.errors import BadInput
from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import Id, Receipt, TopicName, TopicNames, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.selection import Limit
from tarry.programs.cli.session import WAITING, CommandSession, dumps

if TYPE_CHECKING:
    from tarry.verbs.jobs.models import Added, HandedOut, IfExists

Ttr = Annotated[str | None, typer.Option(help="Time to run, such as 30s.", show_default=False)]
At = Annotated[str | None, typer.Option(help="Due at this moment, such as 2026-02-03T04:05:06Z.", show_default=False)]
Delay = Annotated[str | None, typer.Option(help="Due after so long, such as 10m, 1h30m or 1.5.", show_default=False)]


@verb()
def add(
    session: CommandSession,
    topic: TopicName,
    body: Annotated[str | None, typer.Argument(metavar="[BODY]", help="JSON; plain text with --raw.")] = None,
    delay: Delay = None,
    at: At = None,
    id: Annotated[str | None, typer.Option(help="An id of yours; else one is made.", show_default=False)] = None,
    if_exists: Annotated[
        str,
        typer.Option(
            help="When the id is taken: error, keep or replace.",
            autocompletion=complete_words("error", "keep", "replace"),
        ),
    ] = "error",
    ttr: Ttr = None,
    max_attempts: Annotated[
        str | None, typer.Option(help="Attempts until it is dead; none: no limit.", show_default=False)
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help="name=value; may be repeated.", show_default=False)] = None,
    file: Annotated[
        str | None,
        typer.Option(help='Many, a line each: {"body": …, "id": …, "delay": …}; - is stdin.', show_default=False),
    ] = None,
    durability: Annotated[
        str | None, typer.Option(help="Answer when so many replicas have it, or fsynced.", show_default=False)
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Of a topic that is made now; it stays so.", show_default=False)
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Bodies are plain text.")] = False,
    limit: Limit = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --file: only check every line, and say how many.")
    ] = False,
) -> None:
    """Puts a job in, or many from a file."""
    if (body is None) == (file is None):
        raise BadInput("body: give a body, or --file for many.")
    options: dict[str, Any] = {
        "delay": delay if delay is not None else 0,
        "at": arguments.parse_moment(at, "at"),
        "if_exists": cast("IfExists", if_exists),
        "ttr": ttr,
        "max_attempts": arguments.parse_limit(max_attempts),
        "headers": arguments.parse_headers(header),
        "durability": int(durability) if durability is not None and durability.isdecimal() else durability,
    }
    if file is None:
        if dry_run or limit is not None:
            raise BadInput("dry_run, limit: they are for many jobs, from a --file.")
        _added(
            session, session.topic(topic, partitions).add(arguments.parse_body(body or "", raw=raw), id=id, **options)
        )
    elif id is not None:
        raise BadInput('id: with --file each line has its own: {"id": …, "body": …}.')
    else:
        from tarry.programs.cli.batch import add_from_file

        options["partitions"] = partitions
        for job in add_from_file(session, topic, file, options, raw=raw, limit=limit, dry_run=dry_run):
            _added(session, job)


def _added(session: CommandSession, job: Added) -> None:
    words = job.state if job.created else f"was there already, {job.state}"
    session.print_answer(output.added_data(job), f"{job.id}  {words}, due {output.rfc3339(job.due)}")


@verb()
def pop(
    session: CommandSession,
    topics: TopicNames,
    wait: Annotated[str, typer.Option(help="Wait so long for one; or: forever.")] = "0",
    ttr: Ttr = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="As many, if there are.")] = 1,
) -> None:
    """Takes the next due job of the first topic that has one, and shows its receipt."""
    if wait != "0":
        session.usual_patience = WAITING
    client = session.client
    jobs = client.engine.take([client.topic(name) for name in topics], n, arguments.parse_wait(wait), ttr)
    for job in jobs:
        said = output.popped_data(job)
        session.print_answer(said, _job_in_words(job, said))
    if not jobs:
        session.print_note(f"nothing is due in {', '.join(topics)}")


def _job_in_words(job: HandedOut[Any], said: dict[str, Any]) -> str:
    body = dumps(said["body"]) if "body" in said else f"base64 {said['body_base64']}"
    late = f"{output.lateness_text(job.lateness)} late"
    return f"{job.topic}  {job.id}  receipt {job.receipt}  attempt {job.attempt}, {late}  {body}"


def _settle(
    session: CommandSession, topic: str, id: str, receipt: int, word: str, how: Callable[[Any, Any], None]
) -> None:
    from tarry.verbs.jobs.models import Reservation

    how(session.topic(topic), Reservation(id, receipt))
    session.print_answer({"id": id, "done": word}, f"{id}  {word}")


@verb()
def finish(session: CommandSession, topic: TopicName, id: Id, receipt: Receipt) -> None:
    """The work is done: the job is gone."""
    _settle(session, topic, id, receipt, "finished", lambda place, job: place.finish(job))


@verb()
def touch(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    ttr: Annotated[str, typer.Option(help="From now on.")] = "60s",
) -> None:
    """More time for a job in hand."""
    _settle(session, topic, id, receipt, "touched", lambda place, job: place.touch(job, ttr))


@verb()
def release(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    delay: Annotated[str, typer.Option(help="Due again after so long.")] = "0",
    uncounted: Annotated[bool, typer.Option("--uncounted", help="The attempt is taken back.")] = False,
) -> None:
    """Back with a job in hand."""
    _settle(session, topic, id, receipt, "released", lambda place, job: place.release(job, delay, count=not uncounted))


@verb()
def bury(
    session: CommandSession,
    topic: TopicName,
    id: Id,
    receipt: Receipt,
    reason: Annotated[str, typer.Option(help="Why, in one line.")] = "",
) -> None:
    """Sets a job in hand aside, dead."""
    _settle(session, topic, id, receipt, "buried", lambda place, job: place.bury(job, reason))
