"""Locks that are shared with Java applications on Redisson: who has them, and taking one away.

A lock has Redisson's keys and no namespace, so a token for it is one of the service's first namespace.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from tarry.clients.http.wire import lock_answers, lock_models
from tarry.connections.faults import NotPermitted
from tarry.errors import BadInput
from tarry.programs.service.problems import Forbidden
from tarry.programs.service.router import ADMIN, ANY_SCOPE, Example, RouteTable
from tarry.programs.service.shared_queues import INTERNAL_PREFIXES
from tarry.verbs.locks import lock_scripts
from tarry.verbs.locks.models import LockState

if TYPE_CHECKING:
    from tarry.clients.awaited.locks import AsyncLock
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("locks")
LOCK = "/v1/locks/{lock}"
STEPS, ENOUGH = 20, 500
"""Of a walk through the server's keys, a thousand a step; and so many locks end a page."""
_CURSOR = re.compile(r"([0-9]{1,4})-([0-9]{1,19})")
_PATH = {"lock": "stock"}
_HOLDER = "5f0c8d1e-2f7a-4c1b-9a53-0d6f3f1c2b7e:1"
_SHOWN = lock_answers.LockShown("stock", True, _HOLDER, 1, 1800000000000000, 28500.0, 2)


def _check_namespace(x: ServiceRequest) -> None:
    if x.namespace != x.app.settings.namespaces[0]:
        raise Forbidden("Locks have no namespace; use the service's first one, and a token of it.")


def _lock_of(x: ServiceRequest) -> AsyncLock:
    """The lock that the path names. Raises ``BadInput`` for the inside of something else."""
    _check_namespace(x)
    name = x.path["lock"]
    if name.startswith(INTERNAL_PREFIXES):
        raise BadInput(
            f"lock: a name that begins with {' or '.join(INTERNAL_PREFIXES)} is the inside of something else."
        )
    return x.client.lock(name)


@table.route(
    "GET",
    "/v1/locks",
    scopes=ANY_SCOPE,
    query_model=lock_models.LocksQuery,
    answer_model=lock_answers.LockPage,
    example=Example(answer=lock_answers.LockPage([_SHOWN])),
)
async def list_held(x: ServiceRequest) -> lock_answers.LockPage:
    """One page of the locks that are held, of those that were had through tarry in the last week; with `all` the free ones, too.

    It walks through the server's keys, of a Cluster node by node. Give the page's `cursor` for the next one, until there is none;
    a page may be empty, and a lock may come twice. 403 where the service's own user may not SCAN.
    """
    _check_namespace(x)
    place, at = _parse_cursor(x.query_model.cursor)
    names: set[str] = set()
    servers, step = place + 1, 0
    while place < servers and step < STEPS and len(names) < ENOUGH:
        try:
            servers, reply = await x.client.engine.runner.ask_server(place, lock_scripts.scan_locks(at))
        except NotPermitted as fault:
            raise Forbidden(lock_scripts.NO_SCAN) from fault
        if reply is None:
            break
        at, keys = reply
        names.update(map(lock_scripts.name_of, keys))
        place, step = place + (at == b"0"), step + 1
    found = await asyncio.gather(*[_state(x, name) for name in sorted(names)])
    shown = [lock_answers.lock(one) for one in found if one is not None and (one.held or x.query_model.all)]
    return lock_answers.LockPage(shown, f"{place}-{at.decode()}" if place < servers else None)


def _parse_cursor(cursor: str | None) -> tuple[int, bytes]:
    """Which server, and where the walk through it goes on."""
    if cursor is None:
        return 0, b"0"
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[2]) >= 1 << 64:
        raise BadInput(f"cursor: {cursor[:40]!r} is not what a page answered.")
    return int(found[1]), found[2].encode()


async def _state(x: ServiceRequest, name: str) -> LockState | None:
    """``None`` where something else has the name."""
    try:
        return await x.client.lock(name).state()
    except BadInput:
        return None


@table.route(
    "GET", LOCK, scopes=ANY_SCOPE, answer_model=lock_answers.LockShown, example=Example(answer=_SHOWN, path=_PATH)
)
async def look(x: ServiceRequest) -> lock_answers.LockShown:
    """Who holds a lock, for how long, its fencing token, and how many wait."""
    return lock_answers.lock(await _lock_of(x).state())


@table.route(
    "POST",
    LOCK + "/force-release",
    scopes=ADMIN,
    answer_model=lock_answers.LockReleased,
    example=Example(answer=lock_answers.LockReleased("stock", True, _HOLDER), path=_PATH),
)
async def force_release(x: ServiceRequest) -> lock_answers.LockReleased:
    """Takes a lock away from whoever holds it, who is told at once, and may still be working."""
    lock = _lock_of(x)
    before = await lock.state()
    released = await lock.force_release()
    return lock_answers.LockReleased(lock.name, released, before.holder if released else None)
