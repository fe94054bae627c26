"""How durable a job must be before ``add`` returns.

    None            it is in the server's memory, and in its append-only file as far as that is configured
    "replicated"    and one replica has it (WAIT 1); a number: so many replicas
    "fsynced"       and it is on the server's own disk (WAITAOF, Valkey and Redis from 7.2)

A server that cannot confirm is sent no job: it is probed before the first one. A job that is not confirmed in time was added
nevertheless, and the error says so. With asynchronous replication a confirmed job survives the loss of the master if a replica
that has it takes over; Sentinel and Cluster prefer the replica with the most data, and promise no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

from tarry.core.flows import intercept
from tarry.core.requests import CannotConfirm, Confirmation, Flow, Reply, Request, ScriptCall
from tarry.errors import BadInput, Unconfirmed
from tarry.verbs.jobs.options import Durability
from tarry.verbs.jobs.topic_context import ADD, ADD_ONCE

T = TypeVar("T")
WITHIN_MS = 2000
MOST_REPLICAS = 100
ADDING = (ADD, ADD_ONCE)
NEEDS_FOR_DISK = (
    'durability="fsynced" needs Valkey or Redis 7.2 or newer, `appendonly yes`, and `+waitaof` for the URL\'s user'
)
NEEDS_FOR_REPLICAS = 'durability="replicated" needs `+wait` for the URL\'s user'


def with_durability(operation: ScriptCall[T] | Flow[T], durability: Durability) -> ScriptCall[T] | Flow[T]:
    """The same operation, which succeeds only if its jobs are as durable as ``durability`` says."""
    if durability is None:
        return operation
    if isinstance(operation, ScriptCall):
        operation.confirmation = confirmation_for(durability)
        operation.small = None  # a script that the server does not know would be waited for, too
        return operation
    confirmation, added = confirmation_for(durability), False

    def on_request(request: Request) -> Request:
        if isinstance(request, ScriptCall) and request.script in ADDING:  # not that for the number of partitions
            request.confirmation, request.small = confirmation, None
        return request

    def on_reply(requests: Sequence[Request], replies: Sequence[Any]) -> list[Any]:
        """Says in the error of a server that refused if jobs were added to another server, or before."""
        nonlocal added
        mine = [
            reply
            for request, reply in zip(requests, replies, strict=True)
            if getattr(request, "confirmation", None) is confirmation
        ]
        added = added or any(isinstance(reply, Unconfirmed) or not isinstance(reply, Exception) for reply in mine)
        return [
            Unconfirmed(f"Added in part: {reply.reason}") if added and isinstance(reply, CannotConfirm) else reply
            for reply in replies
        ]

    return intercept(operation, on_request, on_reply)


@lru_cache(typed=True)
def confirmation_for(durability: Durability) -> Confirmation:
    """The confirmation to ask for after an add. Raises ``BadInput``."""
    within = b"%d" % WITHIN_MS
    if durability == "fsynced":
        return Confirmation(
            (b"WAITAOF", b"1", b"0", within), _disk_error, (b"WAITAOF", b"1", b"0", b"1"), NEEDS_FOR_DISK
        )
    wanted = 1 if durability == "replicated" else durability
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 1 <= wanted <= MOST_REPLICAS:
        raise BadInput(f'durability: {durability!r}; it is "replicated", "fsynced", or a number of replicas.')
    command = (b"WAIT", b"%d" % wanted, within)
    return Confirmation(
        command, lambda reply: _replicas_error(reply, wanted), (b"WAIT", b"0", b"1"), NEEDS_FOR_REPLICAS
    )


def _replicas_error(reply: Reply, wanted: int) -> Unconfirmed | None:
    if reply >= wanted:
        return None
    return Unconfirmed(
        f"Added, but {reply} of {wanted} replicas confirmed it within {WITHIN_MS / 1000:g} s. "
        "Do not add it again; check the replicas."
    )


def _disk_error(reply: Reply) -> Unconfirmed | None:
    if reply[0] >= 1:
        return None
    return Unconfirmed(
        f"Added, but the server did not confirm within {WITHIN_MS / 1000:g} s that it is on disk. "
        "Do not add it again; check the disk."
    )
