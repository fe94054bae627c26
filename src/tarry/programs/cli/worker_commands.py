"""``tarry workers``: the live worker processes, and how busy they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tarry.internal import one_line
from tarry.programs.cli import output
from tarry.programs.cli.commands import AnyTopics, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.types import WorkerInfo, WorkerMode

WORDS = {"quiet": "be quiet", "stop": "stop", "work": "work again"}


@verb()
def workers(session: CommandSession, topics: AnyTopics = None) -> None:
    """Shows the live workers: their topics, how busy they are, their longest running jobs.

    Each reports every ten seconds; one that was killed is shown for half a minute.
    """
    found = workers_of(session.client.workers(), topics or [])
    for info in found:
        session.print_answer(partial(output.worker_data, info), as_text(info))
    if not found:
        session.print_note(f"no worker is known for {', '.join(topics)}" if topics else "no worker is known")


@verb()
def worker_mode(
    session: CommandSession,
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Its name, as `workers` shows it.")],
    mode: Annotated[
        str,
        typer.Argument(
            metavar="MODE", help="quiet, stop or work.", autocompletion=complete_words("quiet", "stop", "work")
        ),
    ],
) -> None:
    """Asks a worker to be quiet (no new jobs), to stop as SIGTERM does, or to work again.

    The worker learns of it with its next report, within ten seconds.
    """

    alive = session.client.set_worker_mode(worker, cast("WorkerMode", mode))
    session.print_answer(
        {"worker": worker, "mode": mode, "alive": alive},
        f"{worker} is asked to {WORDS[mode]}" if alive else f"no live worker is {worker}",
    )
    if not alive:
        raise typer.Exit(1)


def workers_of(found: Sequence[WorkerInfo], topics: Sequence[str]) -> list[WorkerInfo]:
    """The workers that consume any of the topics; all by default."""
    return [info for info in found if not topics or any(topic.name in topics for topic in info.topics)]


def as_text(info: WorkerInfo) -> str:
    """``ada:4711:k3x9  busy 3 of 70  orders 2/50  tasks 1/20  for 2h 3m, reported 4s ago``. The name, which has host and pid, is first:
    the end of a line may be cut."""
    parts = [f"{info.name}  busy {info.busy} of {info.slots}"]
    parts += [f"{topic.name} {topic.busy}/{topic.slots}" for topic in info.topics]
    parts.append(
        f"for {_whole_seconds(info.now - info.since)}, reported {_whole_seconds(info.now - info.reported_at)} ago"
    )
    if info.overrun:
        parts.append(f"{info.overrun} overran")
    if info.stopping:
        parts.append("stopping")
    elif info.mode == "quiet":
        parts.append("quiet")
    if info.asked not in ("", info.mode):
        parts.append(f"asked to {WORDS.get(info.asked, info.asked)}")
    if info.jobs:
        oldest = info.jobs[0]  # when it reported: the job may be done by now
        parts.append(f"longest {oldest.topic}/{oldest.id} {_whole_seconds(info.reported_at - oldest.taken)}")
    return one_line("  ".join(parts))


def _whole_seconds(span: timedelta) -> str:
    """In whole seconds."""
    return output.span_text(timedelta(seconds=round(max(span, timedelta(0)).total_seconds())))
