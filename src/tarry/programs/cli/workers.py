"""``tarry workers``: the live worker processes, and how busy they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from tarry.programs.cli import output
from tarry.programs.cli.commands import AnyTopics, verb
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.verbs.workers import WorkerInfo


@verb()
def workers(session: CommandSession, topics: AnyTopics = None) -> None:
    """Shows the live workers: their topics, how busy they are, their longest running jobs.

    Each reports every ten seconds; one that was killed is shown for half a minute.
    """
    found = workers_of(session.client.workers(), topics or [])
    for info in found:
        session.print_answer(output.worker_data(info), as_text(info))
    if not found:
        session.print_note(f"no worker is known for {', '.join(topics)}" if topics else "no worker is known")


def workers_of(found: Sequence[WorkerInfo], topics: Sequence[str]) -> list[WorkerInfo]:
    """The workers that consume any of the topics; all by default."""
    return [info for info in found if not topics or any(topic.name in topics for topic in info.topics)]


def as_text(info: WorkerInfo) -> str:
    """``ada  pid 4711  busy 3 of 70  orders 2/50  tasks 1/20  for 2h 3m, reported 4s ago``"""
    parts = [f"{info.host}  pid {info.pid}  busy {info.busy} of {info.slots}"]
    parts += [f"{topic.name} {topic.busy}/{topic.slots}" for topic in info.topics]
    parts.append(
        f"for {_whole_seconds(info.now - info.since)}, reported {_whole_seconds(info.now - info.reported_at)} ago"
    )
    if info.overrun:
        parts.append(f"{info.overrun} overran")
    if info.stopping:
        parts.append("stopping")
    if info.jobs:
        oldest = info.jobs[0]
        parts.append(f"longest {oldest.topic}/{oldest.id} {_whole_seconds(info.now - oldest.taken)}")
    return "  ".join(parts)


def _whole_seconds(span: timedelta) -> str:
    """In whole seconds."""
    return output.lateness_text(timedelta(seconds=round(max(span, timedelta(0)).total_seconds())))
