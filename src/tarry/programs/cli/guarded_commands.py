"""Guarded queues: ``tarry guarded-queue …``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import group, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.session import CommandSession, dumps

GUARDED = group("guarded-queue", "Guarded queues: values that come out when they are due, with their lateness.")
LAYOUTS = ("tarry", "java")
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.", show_default=False)]
QueueNames = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="The queues.", show_default=False)]
LayoutName = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        help="tarry, in the namespace; or java: d_q_p:QUEUE in every namespace, as the Java design that guarded queues come from has it.",
        autocompletion=complete_words(*LAYOUTS),
    ),
]
GuardName = Annotated[
    str | None,
    typer.Option(
        "--guard",
        metavar="LOCK",
        help="Poll with plain commands under this lock, for a queue that others use with one.",
        show_default=False,
    ),
]


Shared = Annotated[
    bool, typer.Option("--shared", help="The lock of --guard is shared with Java: Redisson's getLock(LOCK).")
]


def _queue(session: CommandSession, name: str, layout: str, guard: str | None, shared: bool = False) -> Any:
    lock = session.client.lock(guard, shared=shared) if guard is not None else None
    return session.client.guarded_queue(name, guard=lock, layout=layout)


@verb(within=GUARDED)
def push(
    session: CommandSession,
    queue: QueueName,
    values: Annotated[
        list[str], typer.Argument(metavar="VALUE...", help="JSON; plain text with --raw.", show_default=False)
    ],
    delay: Annotated[
        str, typer.Option(metavar="DURATION", help="Due after this time, such as 10m, 1h30m or 1.5.")
    ] = "0",
    layout: LayoutName = "tarry",
    guard: GuardName = None,
    shared: Shared = False,
    raw: Annotated[bool, typer.Option("--raw", help="The values are plain text, not JSON.")] = False,
) -> None:
    """Pushes values, to be polled after a delay."""
    given = [(arguments.parse_body(text, raw=raw, what="value"), delay) for text in values]
    for text, due in zip(values, _queue(session, queue, layout, guard, shared).push(given), strict=True):
        moment = output.rfc3339(due)
        session.print_answer({"queue": queue, "due": moment}, f"{queue}  {text}  due {moment}")


@verb(within=GUARDED)
def poll(
    session: CommandSession,
    queue: QueueName,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most this many.")] = 1,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for the first.")] = "0",
    layout: LayoutName = "tarry",
    guard: GuardName = None,
    shared: Shared = False,
) -> None:
    """Takes out what is due, and prints it. It is out of the queue then."""
    for item in _queue(session, queue, layout, guard, shared).poll_many(limit, wait=wait):
        late = output.exact_ms(item.lateness)
        value = item.value.decode("utf-8", "replace") if isinstance(item.value, bytes) else item.value
        data = {"value": value, "due": output.rfc3339(item.due), "lateness_ms": late}
        session.print_answer(data, f"{dumps(value)}  {late:g} ms late")


@verb(within=GUARDED)
def stats(session: CommandSession, queues: QueueNames, layout: LayoutName = "tarry") -> None:
    """Shows how many items there are, how many are due, and how late the first is."""
    from tarry.wire.endpoints.guarded_endpoints import GUARDED_STATS

    for name in queues:
        now = _queue(session, name, layout, None).stats()
        data = {"queue": name, **output.as_data(GUARDED_STATS, now)}
        session.print_answer(
            data, f"{name}  {now.size} items  {now.overdue} due  first {data['lateness_ms']:g} ms late"
        )


@verb(within=GUARDED)
def clear(session: CommandSession, queue: QueueName, layout: LayoutName = "tarry") -> None:
    """Removes all items."""
    cleared = _queue(session, queue, layout, None).clear()
    session.print_answer({"queue": queue, "cleared": cleared}, f"{queue}  {'cleared' if cleared else 'was empty'}")
