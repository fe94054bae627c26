"""``tarry doctor``: is all well with the server, and with every topic of the namespace?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tarry.programs.cli.choosing import DryRun
from tarry.programs.cli.register import verb
from tarry.programs.cli.session import Session
from tarry.programs.cli.topics import looked_through

if TYPE_CHECKING:
    from tarry.clients.sync.client import Client

LATE_S = 60.0
"""What has been ready for so long while nobody waits for it is worth a word."""


@verb()
def doctor(session: Session, dry_run: DryRun = False) -> None:
    """Looks at the server and checks every topic; writes topics into the list of known ones that are missing there.

    Exits with 1 when a job is not in its place. What is wrong with the server goes to stderr, or ends it with 3.
    """
    client = session.client
    known = set(client.topics())  # the server is judged when it is first met
    found = _topics_there(client)
    missing = sorted(found - known)
    if missing and not dry_run:
        for name in missing:
            client.engine.introduce(name)
    well = True
    session.tell({"server": client.engine.origin.address.shown, "topics": len(known | found), "missing": missing},
                 f"server  {client.engine.origin.address.shown}, {len(known | found)} topics")  # fmt: skip
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
    said = {"topic": name, "ok": found.ok, "looked_at": found.looked_at, "notes": notes}
    return said, "; ".join(notes) or "all well", found.ok


def _topics_there(client: Client) -> set[str]:
    """The topics that have jobs, by their keys; none on a Cluster, whose nodes would all have to be asked."""
    from tarry.idea.calls import Command
    from tarry.words.keys import topic_keys

    if client.engine.origin.address.kind == "cluster":
        return set()
    begin, end = topic_keys(client.namespace, "x").jobs.split(b"x}")[0], b"}:jobs"
    found: set[str] = set()
    cursor = b"0"
    while True:
        words = (b"SCAN", cursor, b"MATCH", b"tarry:{*}:jobs", b"COUNT", b"1000")
        cursor, keys = client.engine.run(Command(words, lambda reply: (reply[0], reply[1])))
        found.update(
            key[len(begin) : -len(end)].decode() for key in keys if key.startswith(begin) and key.endswith(end)
        )
        if cursor == b"0":
            return found
