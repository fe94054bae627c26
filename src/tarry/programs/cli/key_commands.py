"""The keys of a topic: ``keys``, and what ``stats`` and ``purge`` do with ``--key``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.programs.cli import output
from tarry.programs.cli.commands import TopicName, verb
from tarry.programs.cli.selection import confirm
from tarry.programs.cli.session import CommandSession
from tarry.programs.serving.conditions import key_text

if TYPE_CHECKING:
    from tarry import KeyStats, Topic
    from tarry.types import StateFilter

KEY_STATES = ("delayed", "ready", "reserved")
"""Those in which jobs are found by their key."""


@verb()
def keys(
    session: CommandSession,
    topic: TopicName,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100, help="At most this many.")] = 10,
) -> None:
    """Lists the busiest keys of a topic: those with the most jobs, and why they wait."""
    found = session.known_topic(topic).busiest_keys(limit)
    for one in found:
        print_key(session, one)
    if not found:
        session.print_note(f"no job of {topic} that waits or runs has a key; give one with `tarry add … --key`")


def print_key(session: CommandSession, found: KeyStats) -> None:
    """``calls  key customer-7  delayed 0  ready 3  reserved 2  2 of 2 are running``"""
    parts = [f"{state} {getattr(found, state)}" for state in KEY_STATES]
    parts += filter(None, [key_text(found)])
    session.print_answer(partial(output.key_data, found), f"{found.topic}  key {found.key}  {'  '.join(parts)}")


def purge_key(
    session: CommandSession, topic: Topic[Any], key: str, state: StateFilter | None, *, dry_run: bool, yes: bool
) -> None:
    """Deletes the jobs of a key. Asks first on a terminal."""
    found = topic.stats(key=key)
    if state not in (None, *KEY_STATES):
        raise BadInput(
            f"state: {state!r}; of a key only delayed, ready and reserved jobs are found. Leave out --state, or --key."
        )
    count = sum(getattr(found, one) for one in KEY_STATES if state in (None, one))
    told: dict[str, Any] = {"topic": topic.name, "key": key}
    if dry_run:
        session.print_answer({**told, "would_purge": count}, f"{topic.name}  key {key}  {count} jobs would be deleted")
        return
    confirm(lambda: (count, "job"), f"key {key} in {topic.name}", yes=yes)
    gone = topic.purge(state, key=key)
    session.print_answer({**told, "purged": gone}, f"{topic.name}  key {key}  {gone} jobs deleted")
