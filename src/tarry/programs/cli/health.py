"""``tarry doctor``: is all well with the server, and with every topic of the namespace?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from tarry.programs.cli.choosing import DryRun
from tarry.programs.cli.register import verb
from tarry.programs.cli.session import Session
from tarry.programs.cli.topics import looked_through

if TYPE_CHECKING:
    from tarry.clients.sync.client import Client
    from tarry.clients.sync.topic import Topic
    from tarry.links.blocking import Server
    from tarry.programs.nodes import Node

LATE_S = 60.0
"""What has been ready for so long while nobody waits for it is worth a word."""
MOST_JOBS, MOST_BYTES = 1_000_000, 500 << 20
"""Of one place: moving its hash to another node blocks a server for 1.2 to 1.6 s (measured)."""


@verb()
def doctor(session: Session, dry_run: DryRun = False) -> None:
    """Looks at the server and checks every topic; writes topics into the list of known ones that are missing there.

    Of each server, on a Cluster of each node: version, memory and what becomes of it when it is full, persistence, how soon
    it answers, how far its clock is from this machine's. Exits with 1 when a job is not in its place; a server that cannot
    be used ends it with 3.
    """
    from tarry.programs.cli.nodes import in_words

    client = session.client
    known = set(client.topics())  # the server is judged when it is first met
    found = _topics_there(client)
    missing = sorted(found - known)
    if missing and not dry_run:
        for name in missing:
            client.engine.introduce(name)
    well = True
    shown = client.engine.origin.address.shown
    servers = _servers(client)
    session.tell(
        {
            "server": shown,
            "topics": len(known | found),
            "missing": missing,
            "nodes": [{"node": place, **asdict(node)} for place, node in servers.items()],
        },
        "\n".join(
            [
                f"server  {shown}, {len(known | found)} topics, {len(client.workers())} workers",
                *(f"{place}  {in_words(node)}" for place, node in servers.items()),
            ]
        ),
    )
    for name in missing:
        session.note(f"{name}  was not in the list of known topics{'' if dry_run else '; it is now'}")
    for name in sorted(known | found):
        said, words, fine = _look(client, name)
        well = well and fine
        session.tell(said, f"{name}  {words}")
    if not well:
        raise typer.Exit(1)


def _look(client: Client, name: str) -> tuple[dict[str, Any], str, bool]:
    place = client.topic(name)
    found, now = looked_through(place), place.stats()
    notes = list(found.faults)
    if now.paused_until is not None:
        notes.append("paused")
    if now.oldest_ready is not None and not now.watching and now.paused_until is None:
        waiting = (now.now - now.oldest_ready).total_seconds()
        if waiting > LATE_S:
            notes.append(f"{now.ready} jobs are ready, the first for {waiting:.0f} s, and nobody waits for them")
    if now.dead:
        notes.append(f"{now.dead} dead jobs; tarry list {name} --state dead")
    notes += _too_large(client, place)
    said = {"topic": name, "ok": found.ok, "looked_at": found.looked_at, "notes": notes}
    return said, "; ".join(notes) or "all well", found.ok


def _too_large(client: Client, place: Topic[Any]) -> list[str]:
    """Places that are so large that moving them to another node would hold a server up."""
    from tarry.idea.calls import Command

    parts, notes = client.engine.run(place.verbs.parts()), list[str]()
    for number, part in enumerate(parts):
        jobs = client.engine.run(Command((b"HLEN", part.keys.jobs), int))
        size = client.engine.run(Command((b"MEMORY", b"USAGE", part.keys.jobs), lambda reply: reply or 0, at=2))
        if jobs > MOST_JOBS or size > MOST_BYTES:
            what = f"partition {number}" if len(parts) > 1 else "it"
            notes.append(
                f"{what} has {jobs:,} jobs in {size / 2**20:,.0f} MB: moving it between nodes would hold a server up for more "
                f"than a second; tarry migrate it into a topic with more partitions"
            )
    return notes


def _topics_there(client: Client) -> set[str]:
    """The topics that have jobs, by their keys; on a Cluster those of all nodes."""
    from tarry.links.faults import Fault
    from tarry.words.keys import topic_keys

    begin, end = topic_keys(client.namespace, "x").jobs.split(b"x}")[0], b"}:jobs"

    def scan(server: Server) -> set[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            [reply] = server.exchange(((b"SCAN", cursor, b"MATCH", b"tarry:{*}:jobs", b"COUNT", b"1000"),))
            if isinstance(reply, Fault):
                raise reply
            cursor, keys = reply
            found.update(
                key[len(begin) : -len(end)].partition(b"{")[0].decode()  # a partition is its topic
                for key in keys
                if key.startswith(begin) and key.endswith(end)
            )
            if cursor == b"0":
                return found

    return set().union(*client.engine.runner.each(scan).values())


def _servers(client: Client) -> dict[str, Node]:
    from tarry.programs.cli.nodes import look

    cluster = client.engine.origin.address.kind == "cluster"
    return client.engine.runner.each(lambda server: look(server, cluster=cluster))
