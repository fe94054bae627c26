"""Jobs that come again: ``tarry schedule …``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import TopicName, group, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.clients.schedule_verbs import Schedule

SCHEDULES = group("schedule", "Jobs that come again: every so long, or by calendar.")
MISSED = ("skip", "once", "all")
ScheduleName = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]


@verb(within=SCHEDULES)
def put(
    session: CommandSession,
    topic: TopicName,
    name: ScheduleName,
    body: Annotated[str, typer.Argument(metavar="BODY", help="JSON; plain text with --raw.")] = "null",
    every: Annotated[str | None, typer.Option(help="So long, such as 5m or 1h30m.", show_default=False)] = None,
    cron: Annotated[
        str | None, typer.Option(help='Minute hour day month weekday: "0 9 * * 1-5".', show_default=False)
    ] = None,
    tz: Annotated[str, typer.Option(help="The time zone of --cron.")] = "UTC",
    first: Annotated[
        str | None, typer.Option(help="The first moment of --every, RFC 3339.", show_default=False)
    ] = None,
    missed: Annotated[
        str,
        typer.Option(help=f"What nobody was there for: {', '.join(MISSED)}.", autocompletion=complete_words(*MISSED)),
    ] = "once",
    max_lateness: Annotated[
        str | None, typer.Option(help="Jobs that are later are dead as stale.", show_default=False)
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The body is plain text, no JSON.")] = False,
) -> None:
    """Stores a schedule, or changes it."""
    missing: Any = missed
    made = session.client.schedules.put(
        topic,
        name,
        arguments.parse_body(body, raw=raw),
        every=every,
        cron=cron,
        tz=tz,
        first=arguments.parse_moment(first, "first"),
        missed=missing,
        max_lateness=max_lateness,
    )
    show_schedule(session, made)


@verb(name="list", within=SCHEDULES)
def list_(
    session: CommandSession,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic; all when none is named.")] = None,
) -> None:
    """All schedules, by their next occurrence."""
    found = session.client.schedules.list(topic)
    if not found:
        session.print_note("there is no schedule yet")
    for one in found:
        show_schedule(session, one)


@verb(within=SCHEDULES)
def show(session: CommandSession, topic: TopicName, name: ScheduleName) -> None:
    """One schedule. Exits with 1 if there is none."""
    found = session.client.schedules.get(topic, name)
    if found is None:
        raise unknown(session, topic, name)
    show_schedule(session, found)


@verb(within=SCHEDULES)
def pause(session: CommandSession, topic: TopicName, name: ScheduleName) -> None:
    """No more jobs until resume."""
    report_change(session, topic, name, "paused", session.client.schedules.pause(topic, name))


@verb(within=SCHEDULES)
def resume(session: CommandSession, topic: TopicName, name: ScheduleName) -> None:
    """Goes on with the next occurrence."""
    report_change(session, topic, name, "resumed", session.client.schedules.resume(topic, name))


@verb(within=SCHEDULES)
def delete(session: CommandSession, topic: TopicName, name: ScheduleName) -> None:
    """No more jobs; those that are there stay."""
    report_change(session, topic, name, "deleted", session.client.schedules.delete(topic, name))


def unknown(session: CommandSession, topic: str, name: str) -> typer.Exit:
    session.print_note(f"{topic} has no schedule {name}")
    return typer.Exit(1)


def report_change(session: CommandSession, topic: str, name: str, what: str, there: bool) -> None:
    if not there:
        raise unknown(session, topic, name)
    session.print_answer({"topic": topic, "id": name, "done": what}, f"{topic}  {name}  {what}")


def show_schedule(session: CommandSession, one: Schedule) -> None:
    when = f"{one.cron} {one.tz}" if one.cron else f"every {output.lateness_text(one.every)}" if one.every else ""
    next_ = "paused" if one.paused else f"next {output.rfc3339(one.next) or 'never'}"
    said = [one.topic, one.id, when, next_, f"fired {one.fired}"]
    said += [f"last {output.rfc3339(one.last)}"] if one.last else []
    if one.damaged:
        said = [one.topic, one.id, "damaged: put it anew, or delete it"]
    said += [f"skipped {one.skipped}"] if one.skipped else []
    said += ["orphaned: no code declares it any more"] if one.orphaned else ["from code"] if one.from_code else []
    session.print_answer(output.schedule_data(one), "  ".join(said))
