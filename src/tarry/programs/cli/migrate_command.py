"""``tarry migrate``: moves a topic's jobs to another topic, namespace or server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tarry.errors import BadInput, Unavailable
from tarry.programs.cli.commands import TopicName, verb
from tarry.programs.cli.messages import renamed_parameters
from tarry.programs.cli.session import CommandSession
from tarry.programs.cli.topic_commands import continue_hint, count_leaving

if TYPE_CHECKING:
    from tarry import Migrated


@verb()
def migrate(
    session: CommandSession,
    topic: TopicName,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="The new topic's name. Default: the same.")
    ] = None,
    to_url: Annotated[
        str | None, typer.Option("--to-url", metavar="URL", help="The new server. Default: the same.")
    ] = None,
    to_namespace: Annotated[
        str | None, typer.Option("--to-namespace", metavar="NAME", help="The new namespace. Default: the same.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", help="Create the new topic with this many partitions.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print how many.")] = False,
    redirect: Annotated[
        bool,
        typer.Option(
            "--redirect", help="Jobs of an interrupted migrate to another topic, which no longer exists, go here."
        ),
    ] = False,
) -> None:
    """Moves waiting and dead jobs, schedules and settings into another topic; due times and attempts are kept. Safe to repeat."""
    from tarry import Client

    if to is None and to_url is None and to_namespace is None:
        raise BadInput("to: give --to (another name), --to-namespace or --to-url (another server).")
    before = session.topic(topic).stats()
    if topic not in session.client.topics() and not before.added:
        raise BadInput(f"topic: there is no topic {topic} in the namespace {session.namespace}.")
    with renamed_parameters(url="to_url", namespace="to_namespace", topic="to"):
        handle = Client(to_url or session.url, namespace=to_namespace or session.namespace, patience=session.patience)
        target = handle.topic(to or topic, partitions=partitions)
    if dry_run and (hint := continue_hint(*count_leaving(session.topic(topic)))):
        session.print_note(f"{topic}  {hint}")
    moved_so_far = 0
    with handle:

        def on_progress(moved: int) -> None:
            nonlocal moved_so_far
            moved_so_far = moved
            if moved % 10_000 < 200:
                session.print_note(f"{moved} moved")

        try:
            done = session.client.migrate(topic, target, dry_run=dry_run, redirect=redirect, progress=on_progress)
        except (KeyboardInterrupt, Unavailable):
            if not dry_run:
                session.print_note(
                    f"{topic}  interrupted, {moved_so_far} jobs moved; nothing is lost: run the same command again to continue"
                )
            raise
    session.print_answer({"topic": topic, **asdict(done)}, _as_text(topic, done, dry_run=dry_run))


def _as_text(topic: str, done: Migrated, *, dry_run: bool) -> str:
    text = f"{topic}  {done.moved} jobs {'would move' if dry_run else 'moved'}"
    if done.refused:
        text += f", {done.refused} stay: their ids exist there already"
    if done.reserved:
        text += f", {done.reserved} are reserved: run this again when they are finished"
    if done.schedules or done.schedules_refused:
        text += f", and {done.schedules} schedule{'s' * (done.schedules != 1)}"
    if done.schedules_refused:
        text += f", {done.schedules_refused} schedules stay here: their ids exist there already, or they are damaged"
    if done.settings:
        text += f"; {', '.join(done.settings)} {'would be set' if dry_run else 'are set'} there, too"
    return text
