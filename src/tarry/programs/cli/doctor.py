"""``tarry doctor``: checks the server, and every topic of the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import TarryError, Unavailable
from tarry.internal import address_of, ask_servers, perform, server_verbs
from tarry.programs.cli.commands import verb
from tarry.programs.cli.output import condition_data, count_text
from tarry.programs.cli.selection import DryRun
from tarry.programs.cli.session import CommandSession
from tarry.programs.cli.topic_commands import check_with_progress, continue_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarry import Client, Stats
    from tarry.internal import Node
    from tarry.programs.serving.conditions import Condition

MAX_JOBS, MAX_MB = 1_000_000, 500
"""Of one topic or partition: moving a larger hash to another node blocks a server for 1.2 to 1.6 s (measured)."""
Large = Annotated[int, typer.Option(metavar="N", min=1, help="Warn of a topic, or a partition, that has more jobs.")]
LargeMB = Annotated[int, typer.Option(metavar="N", min=0, help="The same for megabytes of jobs.")]


Roles = Annotated[bool, typer.Option("--acl", help="Only print ACL lines for the server's users, one each.")]
Objects = Annotated[
    str,
    typer.Option(metavar="PREFIX", help="With --acl: the prefix of queues, maps and locks that are shared with Java."),
]


OtherNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--other-namespace",
        metavar="NAME",
        help="With --acl: another namespace for these users, such as a dialect's; may be repeated.",
        show_default=False,
    ),
]


@verb()
def doctor(
    session: CommandSession,
    dry_run: DryRun = False,
    max_jobs: Large = MAX_JOBS,
    max_mb: LargeMB = MAX_MB,
    acl: Roles = False,
    objects: Objects = "",
    other_namespace: OtherNamespaces = None,
) -> None:
    """Checks the server and every topic; adds topics that are missing in the list of known topics.

    For each server, on a Cluster for each node: version, memory and the policy when it is full, persistence, response time,
    difference of the clocks; for a master behind Sentinels, whether it accepts writes without its replicas. Exits with 1
    when a job is not in exactly one state, or when a server loses jobs (a restart without persistence, writes to disk that
    fail, a master that accepts jobs without its replicas), with 3 when the server cannot be used. It finds more as the server's administrator:
    tarry's own ACL roles may not CONFIG GET or SCAN. It prints what it could not check.
    """
    client = session.client  # first: it imports redis-py, without telemetry
    from tarry.internal import NotPermitted
    from tarry.programs.cli.nodes import as_text, read_nodes
    from tarry.programs.serving.conditions import assess_topic, facts_of

    if acl:
        _print_acl_users(session, objects, other_namespace or ())
        return
    known = set(client.topics())  # connecting checks whether the server can be used
    try:
        there = _topics_with_jobs(client)
    except NotPermitted:
        there = dict[str, int]()
        session.print_note(
            "Topics that are missing in the list were not searched: this user may not SCAN. Run it as the server's administrator."
        )
    found = set(there)
    missing = sorted(found - known)
    if missing and not dry_run:
        for name in missing:
            perform(client.topic(name), server_verbs(client.topic(name)).partitions(), registers=True)
    shown = address_of(client).redacted
    servers = read_nodes(client)
    server = facts_of(servers.values())
    workers = client.workers()
    session.print_answer(
        {
            "server": shown,
            "topics": len(known | found),
            "missing": missing,
            "restarts": {worker.name: worker.restarts for worker in workers if worker.restarts},
            "nodes": [{"node": place, **_node_data(node)} for place, node in servers.items()],
        },
        f"server  {shown}, {count_text(len(known | found), 'topic')}, {count_text(len(workers), 'worker')}",
        *(f"{place}  {as_text(node)}" for place, node in servers.items()),
    )
    for worker in workers:
        for work, count in sorted(worker.restarts.items()):
            session.print_note(
                f"worker {worker.name}  {work} has failed {count_text(count, 'time')} and was started again; its log says why"
            )
    all_ok = not any(node.loses_jobs for node in servers.values())
    for name in missing:
        session.print_note(f"{name}  was not in the list of known topics{'' if dry_run else '; it is now'}")
    for name in sorted(known | found):
        try:
            data, text, ok = _check_topic(
                client,
                name,
                there.get(name, -1),
                max_jobs,
                max_mb << 20,
                lambda stats: assess_topic(stats, workers, server),
            )
        except Unavailable:
            raise
        except TarryError as fault:  # of this topic: go on with the others
            data, text, ok = {"topic": name, "ok": False, "looked_at": 0, "notes": [str(fault)]}, str(fault), False
        all_ok = all_ok and ok
        session.print_answer(data, f"{name}  {text}")
    if not all_ok:
        raise typer.Exit(1)


def _node_data(node: Node) -> dict[str, Any]:
    data = asdict(node)
    del data["loses_jobs"], data["unfit"]
    return data


def _check_topic(
    client: Client,
    name: str,
    last: int,
    max_jobs: int,
    max_bytes: int,
    assess: Callable[[Stats], Sequence[Condition]],
) -> tuple[dict[str, Any], str, bool]:
    handle = client.topic(name)
    found, now = check_with_progress(handle), handle.stats()
    parts = perform(client, server_verbs(handle).partitions())
    notes, ok = list(found.faults), found.ok
    if last >= len(parts) or (last >= 0 and len(parts) == 1):
        ok = False
        notes.append(
            f"there are jobs in partition {last}, but the number of partitions is not stored: its key was deleted by hand. Use the "
            f"topic with partitions= the number it had (at least {last + 1}) before it is used as a plain topic"
        )
    if more := continue_hint(found.leaving, found.schedules_leaving):
        notes.append(more)
    told = [one for one in assess(now) if one.kind not in ("empty", "on_time")]
    notes += [_text_of(one, name) for one in told if one.level == "bad"]
    notes += [*_too_large(client, parts, max_jobs, max_bytes), *_check_settings(client, name, parts)]
    data = {
        "topic": name,
        "ok": ok,
        "looked_at": found.looked_at,
        "notes": notes,
        "conditions": [condition_data(one) for one in told],
    }
    calm = [_text_of(one, name) for one in told if one.level == "calm"]
    well = [] if any(one.kind == "died" for one in told) else ["all well"]
    return data, "; ".join([*(notes or well), *calm]), ok


def _text_of(condition: Condition, topic: str) -> str:
    hint = f"; tarry list {topic} --state dead" if condition.kind == "died" else ""
    return f"{condition.sentence[0].lower()}{condition.sentence[1:].removesuffix('.')}{hint}"


def _check_settings(client: Client, name: str, parts: Sequence[Any]) -> list[str]:
    """Notes about partitions with different settings, which an interrupted ``configure`` leaves."""
    from tarry.internal import gather

    data = perform(client, gather(part.read_settings() for part in parts))
    if all(one == data[0] for one in data):
        return []
    why = "its partitions have different settings, because a configure was interrupted"
    return [f"{why}: run `tarry configure {name}` to apply the last settings everywhere, or configure it again"]


def _too_large(
    client: Client, parts: Sequence[Any], max_jobs: int = MAX_JOBS, max_bytes: int = MAX_MB << 20
) -> list[str]:
    """Notes about topics or partitions so large that moving them to another node would block a server."""
    from tarry.internal import Command, gather

    places = [part.keys.jobs for part in parts]
    counts = [Command((b"HLEN", key), int) for key in places]
    memory = [Command((b"MEMORY", b"USAGE", key), lambda reply: int(reply or 0), key_index=2) for key in places]
    found = perform(client, gather((*counts, *memory)))
    notes = list[str]()
    for number, (jobs, size) in enumerate(zip(found[: len(places)], found[len(places) :], strict=True)):
        if jobs > max_jobs or size > max_bytes:
            what = f"partition {number}" if len(parts) > 1 else "it"
            notes.append(
                f"{what} has {count_text(jobs, 'job')} in {size / 2**20:,.0f} MB: moving it between nodes would block a server for more "
                f"than a second; use tarry migrate to a topic with more partitions"
            )
    return notes


def _topics_with_jobs(client: Client) -> dict[str, int]:
    """The topics that have jobs, found by their keys on all nodes, and the last partition that has any, or -1."""
    from tarry.internal import NamespaceVerbs

    found: dict[str, int] = {}
    find = NamespaceVerbs(client.namespace).find_topics
    for name, number in set[tuple[str, int]]().union(*ask_servers(client, find).values()):
        found[name] = max(number, found.get(name, -1))
    return found


def _print_acl_users(session: CommandSession, objects: str, also: Sequence[str]) -> None:
    """Prints ACL lines that the server accepts: an old server refuses a line with a command that it does not know."""
    from tarry.internal import NamespaceVerbs
    from tarry.programs.cli.nodes import read_nodes

    versions = [node.redis_version for node in read_nodes(session.client).values()]
    oldest = min(filter(None, versions), default=())
    for role, text in NamespaceVerbs(session.namespace).acl_lines(objects, oldest, also).items():
        line = f"user {text}"
        session.print_answer({"role": role, "line": line}, line)
    session.print_note(
        f"For {' and '.join((session.namespace, *also))}, and objects shared with Java that begin with {objects or session.namespace}; set "
        "your own passwords. What each role is for, and what to add: docs/how-to/secure-the-server.md."
    )
