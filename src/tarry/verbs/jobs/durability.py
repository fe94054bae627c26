"""How certain an add is before it is answered.

    None            the server has it in memory, and in its append-only file as that is configured
    "replicated"    and one replica has it (WAIT 1); a number: so many of them
    "fsynced"       and the server's own disk has it (WAITAOF, Valkey and Redis from 7.2)

A server that cannot confirm it is given nothing: it is tried before the first. What is not confirmed in time was added all
the same, and the error says so: nothing is taken back. With asynchronous
replication a confirmed job survives the loss of the master if the replica that has it takes over; Sentinel and Cluster
prefer the one that has most, and promise no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

from tarry.core.flows import intercept
from tarry.core.requests import CannotConfirm, Confirmation, Flow, Reply, Request, ScriptCall
from tarry.errors import BadInput, Unconfirmed
from tarry.verbs.jobs.add import ADD

T = TypeVar("T")
Durability: TypeAlias = "Literal['replicated', 'fsynced'] | int | None"
WITHIN_MS = 2000
MOST_REPLICAS = 100
NEEDS_FOR_DISK = (
    'durability="fsynced" needs Valkey or Redis from 7.2, `appendonly yes`, and `+waitaof` for the user of the URL'
)
NEEDS_FOR_REPLICAS = 'durability="replicated" needs `+wait` for the user of the URL'


def with_durability(operation: ScriptCall[T] | Flow[T], durability: Durability) -> ScriptCall[T] | Flow[T]:
    """The same, answered when what it wrote is where it should be."""
    if durability is None:
        return operation
    if isinstance(operation, ScriptCall):
        operation.confirmation = confirmation_for(durability)
        return operation
    then, added = confirmation_for(durability), False

    def on_request(request: Request) -> Request:
        if isinstance(request, ScriptCall) and request.script is ADD:  # not the question how many partitions there are
            request.confirmation = then
        return request

    def on_reply(asked: Sequence[Request], answers: Sequence[Any]) -> list[Any]:
        """Who is given nothing by one server may have been given something by another, or before."""
        nonlocal added
        mine = [
            answer for one, answer in zip(asked, answers, strict=True) if getattr(one, "confirmation", None) is then
        ]
        added = added or any(isinstance(one, Unconfirmed) or not isinstance(one, Exception) for one in mine)
        return [
            Unconfirmed(f"Added in part: {one.why}") if added and isinstance(one, CannotConfirm) else one
            for one in answers
        ]

    return intercept(operation, on_request, on_reply)


@lru_cache(typed=True)
def confirmation_for(durability: Durability) -> Confirmation:
    """What is asked after an add. Raises ``BadInput``."""
    within = b"%d" % WITHIN_MS
    if durability == "fsynced":
        return Confirmation(
            (b"WAITAOF", b"1", b"0", within), _disk_error, (b"WAITAOF", b"1", b"0", b"1"), NEEDS_FOR_DISK
        )
    wanted = 1 if durability == "replicated" else durability
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 1 <= wanted <= MOST_REPLICAS:
        raise BadInput(f'durability: {durability!r}; it is "replicated", "fsynced", or a number of replicas.')
    words = (b"WAIT", b"%d" % wanted, within)
    return Confirmation(words, lambda reply: _replicas_error(reply, wanted), (b"WAIT", b"0", b"1"), NEEDS_FOR_REPLICAS)


def _replicas_error(reply: Reply, wanted: int) -> Unconfirmed | None:
    if reply >= wanted:
        return None
    return Unconfirmed(
        f"Added, but {reply} of {wanted} replicas said within {WITHIN_MS / 1000:g} s that they have it. "
        "The job is there; look after the replicas."
    )


def _disk_error(reply: Reply) -> Unconfirmed | None:
    if reply[0] >= 1:
        return None
    return Unconfirmed(
        f"Added, but the server did not say within {WITHIN_MS / 1000:g} s that it is on disk. "
        "The job is there; look after the disk."
    )
