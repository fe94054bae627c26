"""Queues that are shared with Java: ``tarry delayed-queue …``."""

from __future__ import annotations

import signal
import sys
import threading
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated

import typer

from tarry.errors import BadInput
from tarry.internal import perform
from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import Redisson, TopicName, group, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.progress import progress
from tarry.programs.cli.session import CommandSession, dumps

if TYPE_CHECKING:
    from tarry.redisson import QueueStats

QUEUES = group(
    "delayed-queue", "Delayed queues that Java applications with Redisson share: the same in every namespace."
)
CODECS = ("kryo5", "river", "json", "string", "long", "bytes")
FORMATS = ("Bc0Lc0", "dLc0", "tarry")
FORMATS_HELP = (
    "dLc0 (Redisson up to 3.21.0), Bc0Lc0 (from 3.21.1), Redisson's version, or tarry if no Java reads the queue"
)
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue, as Java names it.", show_default=False)]
QueueNames = Annotated[
    list[str], typer.Argument(metavar="QUEUE...", help="The queues, as Java names them.", show_default=False)
]
CodecName = Annotated[
    str | None,
    typer.Option(
        "--codec",
        metavar="CODEC",
        help=f"The codec, where Java sets another one: {', '.join(CODECS)}.",
        show_default=False,
        autocompletion=complete_words(*CODECS),
    ),
]


@verb(within=QUEUES)
def offer(
    session: CommandSession,
    queue: QueueName,
    values: Annotated[
        list[str], typer.Argument(metavar="VALUE...", help="JSON; plain text with --raw.", show_default=False)
    ],
    delay: Annotated[
        str, typer.Option(metavar="DURATION", help="Due after this time, such as 10m, 1h30m or 1.5.")
    ] = "0",
    redisson: Redisson = None,
    codec: CodecName = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help=f"{FORMATS_HELP}. Default: as --redisson tells.",
            show_default=False,
            autocompletion=complete_words(*FORMATS),
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The values are plain text, not JSON.")] = False,
) -> None:
    """Offers values, to be delivered after a delay. Refused if the queue's format is unknown."""
    handle = session.client.delayed_queue(queue, redisson=redisson, codec=codec, format=format)
    given = [arguments.parse_body(text, raw=raw, what="value") for text in values]
    if codec == "bytes":
        given = [value.encode() if isinstance(value, str) else value for value in given]
    for text, due in zip(values, handle.offer_many(given, delay), strict=True):
        moment = output.rfc3339(due)
        session.print_answer({"queue": queue, "due": moment}, f"{queue}  {text}  due {moment}")


@verb(name="list", within=QUEUES)
def _list(
    session: CommandSession,
    queue: QueueName,
    redisson: Redisson = None,
    codec: CodecName = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most this many.")] = 100,
    poison: Annotated[
        bool, typer.Option("--poison", help="The elements of the queue's poison, with the reasons.")
    ] = False,
) -> None:
    """Lists the elements that are not delivered yet, in the order of due times."""
    from tarry.internal import as_datetime, server_verbs

    handle = session.client.delayed_queue(queue, redisson=redisson, codec=codec)
    if poison:
        for unusable in handle.poison()[:limit]:
            raw = b64encode(unusable.raw).decode()
            session.print_answer({"reason": unusable.reason, "raw_base64": raw}, f"{raw}  {unusable.reason}")
        return
    at: int | None = 0
    while at is not None and at < limit:
        page, following = perform(session.client, server_verbs(handle).preview(at))
        for element in page[: limit - at]:
            value, due = output.element_data(element.body), output.rfc3339(as_datetime(element.due_ms * 1000))
            session.print_answer({"due": due, **value}, f"{due}  {dumps(next(iter(value.values())))}")
        at = following
    if at is None:
        return
    if (size := handle.size()) > limit:
        session.print_note(output.more_note(limit, size, "element"))


@verb(within=QUEUES)
def stats(session: CommandSession, queues: QueueNames) -> None:
    """Shows how many elements are in each place, and how late the first is."""
    from tarry.wire.redisson.queue_answers import QUEUE_STATS

    for name in queues:
        found = session.client.delayed_queue(name).stats()
        session.print_answer(
            output.as_data(QUEUE_STATS, found),
            f"{name}  " + "  ".join(f"{what} {number}" for what, number in _counts(found).items()),
        )


def _counts(stats: QueueStats) -> dict[str, int | str]:
    counts: dict[str, int | str] = {
        "waiting": stats.waiting,
        "overdue": stats.overdue,
        "ready": stats.ready,
        "poison": stats.poison,
        "leaving": stats.leaving,
        "movers": stats.movers,
    }
    return {**counts, "late": output.span_text(stats.oldest_overdue)} if stats.oldest_overdue else counts


@verb(name="format", within=QUEUES)
def _format(
    session: CommandSession,
    queue: QueueName,
    format: Annotated[
        str | None,
        typer.Argument(
            metavar="[FORMAT]", help=f"{FORMATS_HELP}.", show_default=False, autocompletion=complete_words(*FORMATS)
        ),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget the stored format; the queue's elements decide again.")
    ] = False,
) -> None:
    """Shows the format of a queue, or sets it after an upgrade of the Java side."""
    if format is not None and forget:
        raise BadInput("format: give a format, or --forget.")
    handle = session.client.delayed_queue(queue)
    if format is not None or forget:
        handle.set_format(format)
    known = handle.stats().format
    session.print_answer({"queue": queue, "format": known}, f"{queue}  {known or 'unknown'}")


@verb(within=QUEUES)
def move(
    session: CommandSession,
    queues: QueueNames,
    keep_moving: Annotated[
        bool, typer.Option("--keep-moving", help="Go on until Ctrl-C or SIGTERM, as a worker does.")
    ] = False,
) -> None:
    """Moves due elements to the blocking queue: once, or with --keep-moving as long as this runs."""
    from tarry.internal import server_verbs

    client = session.client
    for name in queues:
        done = perform(client, server_verbs(client.delayed_queue(name)).transfer_all())
        data = {"queue": name, "moved": done.moved, "poison": done.poison}
        session.print_answer(data, f"{name}  {done.moved} moved" + (f", {done.poison} poison" if done.poison else ""))
    if keep_moving:
        client.keep_moving(*queues)
        sys.stdout.flush()
        session.print_note(f"moving {', '.join(queues)}; Ctrl-C ends it")
        _wait_for_signal()


def _wait_for_signal() -> None:
    """Waits for SIGTERM or SIGINT; a shell may have switched SIGINT off for a background process."""
    signalled = threading.Event()

    def end(number: int, frame: object) -> None:  # noqa: ARG001  # a signal handler's signature
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    signalled.wait()


@verb(within=QUEUES)
def migrate(
    session: CommandSession,
    queue: QueueName,
    topic: TopicName,
    redisson: Redisson = None,
    codec: CodecName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print how many.")] = False,
    redirect: Annotated[
        bool,
        typer.Option(
            "--redirect", help="Elements of an interrupted migrate to another topic, which no longer exists, go here."
        ),
    ] = False,
) -> None:
    """Moves elements that are not due yet from a queue shared with Java into a topic; due times are kept. Safe to repeat."""
    handle = session.client.delayed_queue(queue, redisson=redisson, codec=codec)
    with progress(f"{queue} to {topic}", handle.size()) as advance:
        seen = 0

        def on_progress(moved: int) -> None:
            nonlocal seen
            advance(moved - seen)
            seen = moved

        try:
            done = session.client.migrate_queue(handle, topic, dry_run=dry_run, redirect=redirect, progress=on_progress)
        except KeyboardInterrupt:
            session.print_note(f"{queue}  {seen} jobs moved; run the same command again to continue")
            raise
    data = {"queue": queue, "topic": topic, "moved": done.moved, "poison": done.poison, "dry_run": dry_run}
    text = f"{queue}  {done.moved} jobs {'would move' if dry_run else 'moved'} to {topic}"
    if done.poison:
        text += f", {done.poison} cannot be a body there: tarry delayed-queue list {queue} --poison"
    session.print_answer(data, text)
