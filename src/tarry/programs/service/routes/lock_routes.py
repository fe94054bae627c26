"""Routes of locks: who holds them, and releasing one by force.

A lock that is shared with Java has Redisson's keys and no namespace, so it needs a token of the service's first namespace.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from tarry import LockState
from tarry.errors import BadInput
from tarry.internal import NamespaceVerbs, NotPermitted, ask_server
from tarry.programs.serving.problems import NO_SCAN, Forbidden
from tarry.programs.serving.router import RouteTable
from tarry.wire.endpoints import lock_endpoints as endpoints
from tarry.wire.endpoints import lock_endpoints as locks

if TYPE_CHECKING:
    from tarry import AsyncLock
    from tarry.programs.serving.request import ServiceRequest

table = RouteTable("locks")
LOCK = "/v1/locks/{lock}"
MOST_SCANS, PAGE_SIZE = 20, 500
"""For one page: how many SCAN calls, of a thousand keys each, and how many locks at most."""
_CURSOR = re.compile(r"([0-9]{1,4})-([0-9]{1,19})")


def _check_namespace(request: ServiceRequest) -> None:
    if request.query_model.shared and request.namespace != request.app.settings.namespaces[0]:
        raise Forbidden("A shared lock has no namespace; use the service's first one, and a token of it.")


def _lock_of(request: ServiceRequest) -> AsyncLock:
    """The lock of the path. Raises ``BadInput`` for a key of tarry's or Redisson's own."""
    _check_namespace(request)
    name, shared = request.path["lock"], request.query_model.shared
    return request.client.lock(name, shared=shared)


@table.handles(endpoints.LIST_HELD)
async def list_held(request: ServiceRequest) -> locks.Locks:
    """One page of the locks that are held, of those that tarry has used in the last week; with `all` the free ones, too.
    They are those of the namespace; with `shared` those that are shared with Java.

    The service scans the server's keys, on a Cluster node by node. Give the page's `cursor` for the next one, until there is none;
    a page may be empty, and a lock may appear twice. 403 if the service's own user may not SCAN.
    """
    _check_namespace(request)
    place, at = _parse_cursor(request.query_model.cursor)
    verbs, shared = NamespaceVerbs(request.namespace), request.query_model.shared
    known: set[str] = set()
    servers, step = place + 1, 0
    while place < servers and step < MOST_SCANS and len(known) < PAGE_SIZE:
        try:
            scan = verbs.scan_locks(at, shared=shared)
            servers, reply = await ask_server(request.client, place, scan)
        except NotPermitted as fault:
            raise Forbidden(NO_SCAN) from fault
        if reply is None:
            break
        at, keys = reply
        known.update(verbs.lock_of(key).name for key in keys)
        place, step = place + (at == b"0"), step + 1
    found = await asyncio.gather(*[_state(request, name, shared) for name in sorted(known)])
    shown = [one for one in found if one is not None and (one.held or request.query_model.all)]
    return locks.Locks(shown, f"{place}-{at.decode()}" if place < servers else None)


def _parse_cursor(cursor: str | None) -> tuple[int, bytes]:
    """The number of the server, and the SCAN cursor there."""
    if cursor is None:
        return 0, b"0"
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[2]) >= 1 << 64:
        raise BadInput(f"cursor: {cursor[:40]!r} is not what a page answered.")
    return int(found[1]), found[2].encode()


async def _state(request: ServiceRequest, name: str, shared: bool) -> LockState | None:
    """The lock's state; ``None`` if another type of key has the name."""
    try:
        return await request.client.lock(name, shared=shared).state()
    except BadInput:
        return None


@table.handles(endpoints.LOOK)
async def look(request: ServiceRequest) -> LockState:
    """The state of a lock: its holder, its lease, its fencing token, and how many clients wait."""
    return await _lock_of(request).state()


@table.handles(endpoints.FORCE_RELEASE)
async def force_release(request: ServiceRequest) -> locks.LockReleased:
    """Releases a lock by force. The holder is notified at once, but may still be working."""
    lock = _lock_of(request)
    before = await lock.state()
    released = await lock.force_release()
    return locks.LockReleased(lock.name, released, before.holder if released else None)
