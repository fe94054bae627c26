"""The commands ``histogram``, ``throughput``, ``top`` and ``demo``."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tarry.programs.cli.commands import AnyTopics, TopicName, verb
from tarry.programs.cli.session import WAITING, CommandSession
from tarry.programs.cli.worker_commands import workers_of

if TYPE_CHECKING:
    from rich.console import Console

    from tarry.programs.cli.timeline import TopicView

REFRESH_S = 1.0


@verb()
def histogram(
    session: CommandSession,
    topic: TopicName,
    start: Annotated[str, typer.Option(metavar="TIME", help="Start: this long after now, or a moment.")] = "0",
    past: Annotated[str, typer.Option(metavar="DURATION", help="Start this long before now.")] = "0",
    span: Annotated[str, typer.Option(metavar="DURATION", help="The length of time.")] = "1h",
    buckets: Annotated[int, typer.Option(metavar="N", help="The number of buckets.")] = 20,
) -> None:
    """Shows how many jobs are due in each interval of time."""
    from tarry.programs.cli import arguments, output, timeline

    begin = arguments.parse_moment(start, "start") if "-" in start[1:] else start
    found = session.known_topic(topic).histogram(start=begin or start, span=span, buckets=buckets, past=past)
    session.print_answer(output.histogram_data(topic, found), *timeline.histogram_lines(topic, found))


@verb()
def throughput(
    session: CommandSession,
    topic: TopicName,
    span: Annotated[str, typer.Option(metavar="DURATION", help="How far back: at most a week.")] = "1h",
) -> None:
    """Shows how many jobs were added, finished and died in each minute, and how many attempts failed; before the last day, in each hour."""
    from tarry.programs.cli import output, timeline

    found = session.known_topic(topic).throughput(span=span)
    session.print_answer(output.throughput_data(topic, found), *timeline.throughput_lines(topic, span, found))


@verb()
def top(
    session: CommandSession,
    topics: AnyTopics = None,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
) -> None:
    """Draws the time line: jobs that are late, due in the next minute, hour, day; and the workers.

    Topics with the worst condition are first. Keys: s sorts, / filters, Enter shows one topic, ? helps, q quits."""
    from tarry.programs.cli import output, timeline

    session.usual_patience = WAITING
    for name in topics or ():
        session.known_topic(name)
    if session.json:
        workers = session.client.workers()
        for name, seen in timeline.view_topics(session.client, topics or [], workers=workers).items():
            line = output.timeline_data(seen.past, seen.stretches)
            session.print_answer(
                {
                    **output.stats_data(seen.stats),
                    **output.topic_workers(workers, name),
                    "conditions": [output.condition_data(one) for one in seen.conditions],
                    "time_line": line,
                },
                name,
            )
        return
    from rich.console import Console

    chosen, console = topics or [], Console()
    if once or not console.is_terminal:
        width = console.width if console.is_terminal else timeline.USUAL_WIDTH
        live = session.client.workers()
        views = timeline.view_topics(session.client, chosen, width, live)
        console.print(timeline.frame(views, {}, workers_of(live, chosen)))
        return
    with suppress(KeyboardInterrupt):
        _run_screen(session, chosen, console)


def _run_screen(session: CommandSession, topics: list[str], console: Console) -> None:
    """Draws frames and reads keys until one of them ends it."""
    from rich.live import Live

    from tarry.programs.cli import timeline
    from tarry.programs.cli.top_screen import TopScreen, keyboard, keys_of

    screen = TopScreen()
    views: dict[str, TopicView] = {}
    with keyboard() as read, Live(console=console, auto_refresh=False, screen=True) as drawing:
        while not screen.over:
            live = session.client.workers()
            before, views = views, timeline.view_topics(session.client, topics, console.width, live)
            workers = workers_of(live, topics)
            until = time.monotonic() + REFRESH_S
            while not screen.over:
                drawing.update(screen.draw(views, before, workers, console), refresh=True)
                typed = read(until - time.monotonic())
                if not typed:
                    break
                for key in keys_of(typed):
                    screen.press(key)


@verb(with_patience=False)
def demo(
    session: CommandSession,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="How many orders; default: a thousand.", show_default=False)
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="N", min=0.5, max=3600, help="How long the orders take to become due.")
    ] = 10.0,
) -> None:
    """A thousand unpaid orders, two workers, one of them killed in the middle. Exits with 1 if anything went wrong."""
    from tarry.programs.demo.screen import demo

    found = demo(session.url, jobs, seconds, quiet=session.json)
    if session.json:
        import msgspec

        session.print_answer({**msgspec.structs.asdict(found), "ok": found.ok}, "")
    else:
        from tarry.programs.demo.screen import print_summary

        print_summary(found)
    if not found.ok:
        raise typer.Exit(1)


@verb(name="demo-worker", hidden=True, with_patience=False)
def _demo_worker(
    session: CommandSession,
    log: Annotated[Path, typer.Argument(metavar="FILE", help="The file for its work log.")],
    ttr: Annotated[str, typer.Option(metavar="DURATION", help="Time to run.")] = "15s",
) -> None:
    """A worker of the demo."""
    import asyncio
    import logging

    from tarry.internal import log_formatter
    from tarry.programs.demo.demo_workers import close_orders

    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter("text", "%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    asyncio.run(close_orders(session.url, session.namespace, log, ttr))
