"""Locks: ``tarry lock …``, on Redis, or on ZooKeeper with ``--zookeeper``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.programs.cli import output
from tarry.programs.cli.commands import group, verb
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry import LockState

LOCKS = group("lock", "Locks across machines: who holds them, and releasing them by force.")
LockName = Annotated[str, typer.Argument(metavar="LOCK", help="The lock.", show_default=False)]
LockNames = Annotated[list[str], typer.Argument(metavar="LOCK...", help="The locks.", show_default=False)]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOSTS",
        help="Use locks in this ZooKeeper, host:port,….",
        show_default=False,
    ),
]


Shared = Annotated[
    bool,
    typer.Option(
        "--shared",
        help="Shared with Java, in every namespace: Redisson's getLock(LOCK); with --zookeeper Curator's path.",
    ),
]


@contextmanager
def _lock_client(session: CommandSession, hosts: str | None) -> Generator[Any]:
    """The client that has the locks: of Redis, or of ZooKeeper."""
    if hosts is None:
        yield session.client
        return
    from tarry.zookeeper import Client

    with Client(hosts, namespace=session.namespace, patience=session.usual_patience) as client:
        yield client


@verb(name="list", within=LOCKS)
def _list(
    session: CommandSession,
    zookeeper: Hosts = None,
    shared: Shared = False,
    all: Annotated[bool, typer.Option("--all", help="Also those that are free.")] = False,
) -> None:
    """Lists the locks that are held. On Redis: of those that tarry has used in the last week."""
    if shared and zookeeper is not None:
        raise BadInput("shared: Curator's locks may be at any path of a ZooKeeper; name one: tarry lock get --shared.")
    with _lock_client(session, zookeeper) as handle:
        for name in handle.locks() if zookeeper is not None else _known_names(session, shared=shared):
            try:
                state = handle.lock(name, shared=shared).state()
            except BadInput:  # another type of key has the name now
                continue
            if state.held or all:
                _show(session, state)


def _known_names(session: CommandSession, *, shared: bool) -> list[str]:
    from tarry.errors import ServerUnfit
    from tarry.internal import NamespaceVerbs, NotPermitted, ask_servers
    from tarry.programs.serving.problems import NO_SCAN

    find = partial(NamespaceVerbs(session.client.namespace).find_locks, shared=shared)
    try:
        return sorted(set().union(*ask_servers(session.client, find).values()))
    except NotPermitted as fault:
        raise ServerUnfit(NO_SCAN) from fault


@verb(within=LOCKS)
def get(session: CommandSession, locks: LockNames, zookeeper: Hosts = None, shared: Shared = False) -> None:
    """Shows who holds a lock, for how long, its fencing token, and how many wait."""
    with _lock_client(session, zookeeper) as handle:
        for name in locks:
            _show(session, handle.lock(name, shared=shared).state())


@verb(name="force-release", within=LOCKS)
def force_release(session: CommandSession, lock: LockName, zookeeper: Hosts = None, shared: Shared = False) -> None:
    """Releases a lock by force. Its holder is notified at once, but may still be working."""
    with _lock_client(session, zookeeper) as client:
        handle = client.lock(lock, shared=shared)
        before = handle.state()
        released = handle.force_release()
    data = {"lock": lock, "released": released, "holder": before.holder if released else None}
    session.print_answer(data, f"{lock}  taken from {before.holder}" if released else f"{lock}  nobody had it")


def _show(session: CommandSession, state: LockState) -> None:
    from tarry.wire.endpoints.lock_endpoints import LOCK

    data = output.as_data(LOCK, state)
    if not state.held:
        session.print_answer(data, f"{state.name}  free")
        return
    parts = [f"{state.name}  held by {state.holder}", f"token {state.token}"]
    if state.depth > 1:
        parts.append(f"{state.depth} times")
    if state.remaining is not None:
        parts.append(f"ends in {state.remaining.total_seconds():.1f} s if nobody renews it")
    if state.waiting:
        parts.append(f"{state.waiting} waiting")
    session.print_answer(data, "  ".join(parts))
