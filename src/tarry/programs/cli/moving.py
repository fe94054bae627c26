"""Moving a topic's jobs somewhere else."""

from __future__ import annotations

from typing import Annotated

import typer

from tarry.errors import BadInput
from tarry.programs.cli.register import TopicName, verb
from tarry.programs.cli.session import Session


@verb()
def migrate(
    session: Session,
    topic: TopicName,
    to: Annotated[str | None, typer.Option("--to", help="The new topic's name; the same when it is not given.")] = None,
    to_url: Annotated[
        str | None, typer.Option("--to-url", help="The new server; the same when it is not given.")
    ] = None,
    to_namespace: Annotated[
        str | None, typer.Option("--to-namespace", help="The new namespace; else the same.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
) -> None:
    """Moves all jobs that wait, and the dead, into another topic; due times and attempts are kept. Safe to repeat."""
    from tarry.clients.sync.client import Client

    if to is None and to_url is None and to_namespace is None:
        raise BadInput("to: say where: --to another name, --to-namespace, or --to-url another server.")
    before = session.topic(topic).stats()
    if topic not in session.client.topics() and not before.added:
        raise BadInput(f"topic: there is no topic {topic} in the namespace {session.namespace}.")
    place = Client(to_url or session.url, namespace=to_namespace or session.namespace, patience=session.patience)
    with place as there:
        target = there.topic(to or topic)

        def tell(moved: int) -> None:
            if moved % 10_000 < 200:
                session.note(f"{moved} moved")

        done = session.client.migrate(topic, target, dry_run=dry_run, progress=tell)
    words = f"{topic}  {done.moved} jobs {'would move' if dry_run else 'moved'}"
    if done.refused:
        words += f", {done.refused} stay: their ids are taken there"
    if done.reserved:
        words += f", {done.reserved} are in hand: run this again when they are finished"
    session.tell({"topic": topic, "moved": done.moved, "refused": done.refused, "reserved": done.reserved}, words)
