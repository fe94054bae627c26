"""Jobs that come again: ``tarry schedule …``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import TopicName, group, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarry import Schedule

SCHEDULES = group("schedule", "Jobs that come again: at an interval, or by calendar.")
MISSED = ("skip", "once", "all")
ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="The schedule's id.", show_default=False)]


@verb(within=SCHEDULES)
def put(
    session: CommandSession,
    topic: TopicName,
    id: ScheduleId,
    body: Annotated[str, typer.Argument(metavar="BODY", help="JSON; plain text with --raw.")] = "null",
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The interval, such as 5m or 1h30m.", show_default=False)
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help='Minute hour day month weekday: "0 9 * * 1-5".', show_default=False),
    ] = None,
    tz: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of --cron.")] = "UTC",
    first: Annotated[
        str | None, typer.Option(metavar="TIME", help="The first occurrence of --every, RFC 3339.", show_default=False)
    ] = None,
    missed: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help=f"Occurrences while no consumer ran: {', '.join(MISSED)}.",
            autocompletion=complete_words(*MISSED),
        ),
    ] = "once",
    ttr: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time to run, such as 30s.", show_default=False)
    ] = None,
    max_attempts: Annotated[
        str | None,
        typer.Option(metavar="N", help="After this many attempts a job is dead; none: no limit.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="name=value; may be repeated.", show_default=False)
    ] = None,
    max_lateness: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Jobs that are later are buried as too late.", show_default=False),
    ] = None,
    priority: Annotated[
        int,
        typer.Option(
            metavar="N", help="Of its jobs, 0 to 3: of the jobs that are due, the highest is handed out first."
        ),
    ] = 0,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A word such as customer-7: the topic's limits for keys count the jobs of each.",
            show_default=False,
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The body is plain text, not JSON.")] = False,
) -> None:
    """Stores a schedule, or changes it."""
    missed_policy: Any = missed
    made = session.client.schedules.put(
        topic,
        id,
        arguments.parse_body(body, raw=raw),
        every=every,
        cron=cron,
        tz=tz,
        first=arguments.parse_moment(first, "first"),
        missed=missed_policy,
        ttr=ttr,
        max_attempts=arguments.parse_limit(max_attempts),
        headers=arguments.parse_headers(header),
        max_lateness=max_lateness,
        priority=priority,
        key=key,
    )
    show_schedules(session, [made])


@verb(name="list", within=SCHEDULES)
def list_(
    session: CommandSession,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic; default: all.")] = None,
) -> None:
    """Lists schedules by their next occurrence."""
    found = session.client.schedules.list(topic)
    if not found:
        session.print_note("there is no schedule yet")
    show_schedules(session, found)


@verb(within=SCHEDULES)
def get(session: CommandSession, topic: TopicName, id: ScheduleId) -> None:
    """Shows one schedule. Exits with 1 if there is none."""
    found = session.client.schedules.get(topic, id)
    if found is None:
        raise unknown(session, topic, id)
    show_schedules(session, [found])


@verb(within=SCHEDULES)
def pause(session: CommandSession, topic: TopicName, id: ScheduleId) -> None:
    """Pauses a schedule: no more jobs until resume."""
    report_change(session, topic, id, "paused", session.client.schedules.pause(topic, id))


@verb(within=SCHEDULES)
def resume(session: CommandSession, topic: TopicName, id: ScheduleId) -> None:
    """Resumes a schedule, with the next occurrence."""
    report_change(session, topic, id, "resumed", session.client.schedules.resume(topic, id))


@verb(within=SCHEDULES)
def delete(session: CommandSession, topic: TopicName, id: ScheduleId) -> None:
    """Deletes a schedule; jobs that it has made stay."""
    report_change(session, topic, id, "deleted", session.client.schedules.delete(topic, id))


def unknown(session: CommandSession, topic: str, id: str) -> typer.Exit:
    session.print_note(f"{topic} has no schedule {id}")
    return typer.Exit(1)


def report_change(session: CommandSession, topic: str, id: str, what: str, exists: bool) -> None:
    if not exists:
        raise unknown(session, topic, id)
    session.print_answer({"topic": topic, "id": id, "done": what}, f"{topic}  {id}  {what}")


def show_schedules(session: CommandSession, schedules: Sequence[Schedule]) -> None:
    topics = {one.topic for one in schedules if one.next is not None}
    stats = {topic: session.client.topic(topic).stats() for topic in topics}
    for one in schedules:
        is_held = one.next is not None and stats[one.topic].full and one.next <= stats[one.topic].now
        _show(session, one, is_held=is_held)


def _show(session: CommandSession, schedule: Schedule, *, is_held: bool) -> None:
    when = (
        f"{schedule.cron} {schedule.tz}"
        if schedule.cron
        else f"every {output.span_text(schedule.every)}"
        if schedule.every
        else ""
    )
    next_ = "paused" if schedule.paused else f"next {output.rfc3339(schedule.next) or 'never'}"
    data = [schedule.topic, schedule.id, when, next_, f"fired {schedule.fired}"]
    data += ["waits: its topic is full"] if is_held else []
    data += [f"last {output.rfc3339(schedule.last)}"] if schedule.last else []
    if schedule.damaged:
        data = [schedule.topic, schedule.id, "damaged: put it again, or delete it"]
    data += [f"skipped {schedule.skipped}"] if schedule.skipped else []
    data += (
        ["orphaned: no code declares it any more"] if schedule.orphaned else ["from code"] if schedule.from_code else []
    )
    session.print_answer(output.schedule_data(schedule), "  ".join(data))
