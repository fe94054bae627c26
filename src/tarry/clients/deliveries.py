"""From a request to its answer, for both clients: what is sent, what a reply means, and whether it is sent again. No I/O.

    Delivery       one request, its caller's result, what is left of its patience
    pipelines_of   deliveries ─▶ pipelines, one a server; calls of one kind are one command
    Pipeline       commands ─▶ wire ─▶ received(replies) ─▶ results are set; what failed is returned with its fault
    next_try       a fault ─▶ the pause before the next try, or None: the caller gets the error

Both runners send pipelines, wait, and pass replies and faults back. Only they know sockets, threads and tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from tarry.clients.replies import (
    check_confirmation,
    command_of,
    eval_command,
    judged,
    key_of,
    log_retry,
    merge_calls,
    refuse_forbidden,
    script_of,
    split_reply,
    unavailable_error,
    with_key,
    with_refusal,
)
from tarry.connections.faults import (
    ConfirmationLost,
    ConnectionLost,
    Fault,
    NoScript,
    NotJudged,
    TryLater,
    WantsKeys,
    WrongNode,
)
from tarry.core.patience import RetryBudget
from tarry.core.requests import MOST_BYTES, MOST_ITEMS, Confirmation, Reply, ScriptCall
from tarry.errors import TarryError


class Result(Protocol):
    """A future, of asyncio or of threads."""

    def done(self) -> bool: ...
    def set_result(self, result: Any) -> None: ...
    def set_exception(self, exception: BaseException) -> None: ...


class Delivery(Struct, eq=False):
    """A request that is not answered yet."""

    request: Any
    budget: RetryBudget
    result: Any = None
    once: bool = False
    """The caller gets a fault at once, without a retry."""
    source: int = 0
    """How often the server did not know the script."""
    fault: Fault | None = None
    """Why the last try failed."""

    def next_try(self, fault: Fault, shown: str, bound_s: float) -> float | None:
        """After a fault: seconds until the next try; ``None`` if there is none. A request that may have been done becomes a replay."""
        if isinstance(fault, NotJudged):
            self.request = self.request.as_large()
            return 0.0
        if isinstance(fault, WantsKeys):
            self.request = self.request.with_all_keys()
            return 0.0
        if isinstance(fault, NoScript) and self.source < 2:
            self.source += 1
            return 0.0
        budget = self.budget
        self.fault = with_refusal(fault, budget)
        budget.added |= isinstance(fault, ConfirmationLost)
        if self.once or not isinstance(fault, (ConnectionLost, TryLater)):
            return None
        pause = budget.next_delay(random.random())
        if pause is not None:
            log_retry(budget.tries, fault, shown, bound_s)
            budget.tries += 1
            if isinstance(fault, ConnectionLost) and isinstance(self.request, ScriptCall):
                self.request = self.request.as_replay()
        return pause

    @property
    def needs_refresh(self) -> bool:
        """Whether the servers are looked for again before the next try."""
        return self.budget.tries > 1 or isinstance(self.fault, WrongNode)

    def error(self, shown: str) -> TarryError:
        """The error for the caller, after the last try."""
        assert self.fault is not None
        return unavailable_error(self.fault, shown, self.budget.elapsed, added=self.budget.added)

    def fail(self, error: BaseException) -> None:
        """Gives an error to the caller, if it still waits."""
        if not self.result.done():
            self.result.set_exception(error)


class Merged(Struct, eq=False):
    """One command on the wire: one request, or several of one kind."""

    deliveries: list[Delivery]
    request: Any
    source: int
    items: int = 0
    size: int = 0


class Pipeline(Struct, eq=False):
    """One pipeline to one server: commands with the same confirmation behind them."""

    url: str
    confirmation: Confirmation | None
    merged: list[Merged]

    @property
    def deliveries(self) -> Iterable[Delivery]:
        return (delivery for merged in self.merged for delivery in merged.deliveries)

    @property
    def key(self) -> bytes:
        return key_of(self.merged[0].request)

    @property
    def budget(self) -> RetryBudget:
        return self.merged[0].deliveries[0].budget

    def refuse(self, forbidden: frozenset[bytes]) -> bool:
        """Fails the requests that the Redis user may not send. Returns whether any is left."""
        left: list[Merged] = []
        for merged in self.merged:
            try:
                refuse_forbidden(forbidden, merged.request)
            except Fault as no:
                for delivery in merged.deliveries:
                    delivery.fault = no
                    delivery.fail(delivery.error(""))
            else:
                left.append(merged)
        self.merged = left
        return bool(left)

    def commands(self, clock: bytes) -> list[bytes]:
        """The packed commands. A script that the server does not know is sent once, then named by its hash; if that does not help,
        each time."""
        first, *others = self.merged
        if not others and not first.source:
            return [command_of(first.request, clock)]
        said: set[Any] = set()
        commands: list[bytes] = []
        for merged in self.merged:
            request, source = merged.request, merged.source
            script = script_of(request) if source and isinstance(request, ScriptCall) else None
            full = source == 2 or (script is not None and script not in said)
            said.add(script)
            commands.append((eval_command if full else command_of)(request, clock))
        return commands

    def received(
        self, replies: Sequence[Reply], confirms: set[bytes], unwanted: Callable[[Any, Any], None] | None = None
    ) -> list[tuple[Delivery, Fault]]:
        """Gives each caller its part of the replies. Returns what has failed, and why. ``unwanted`` gets an answer that no caller
        waits for any more."""
        failed: list[tuple[Delivery, Fault]] = []
        last = replies[len(self.merged) :] if self.confirmation is not None else ()
        for merged, reply in zip(self.merged, replies, strict=False):
            deliveries = merged.deliveries
            if isinstance(fault := judged(merged.request, reply), Fault):
                failed += [(delivery, with_key(fault, delivery.request)) for delivery in deliveries]
                continue
            try:
                parts = [reply] if len(deliveries) == 1 else split_reply([one.request for one in deliveries], reply)
            except Exception as error:  # noqa: BLE001  # whatever it is, the callers get it
                for delivery in deliveries:
                    delivery.fail(error)
                continue
            for delivery, part in zip(deliveries, parts, strict=True):
                try:
                    answer = delivery.request.decode(part)
                    if last:
                        check_confirmation(self.confirmation, last, confirms)
                except Fault as fault:
                    failed.append((delivery, fault))
                except Exception as error:  # noqa: BLE001  # whatever it is, the caller gets it
                    delivery.fail(error)
                else:
                    if not delivery.result.done():
                        delivery.result.set_result(answer)
                    elif unwanted is not None:
                        unwanted(delivery.request, answer)
        return failed

    def lost(self, fault: Fault) -> list[tuple[Delivery, Fault]]:
        """None of it has an answer."""
        return [(delivery, fault) for delivery in self.deliveries]


def pipelines_of(
    deliveries: list[Delivery], url_of: Callable[[bytes], str], failed: Callable[[Delivery, Exception], None]
) -> list[Pipeline]:
    """Sorts deliveries that still have a caller by server and confirmation. ``failed`` gets those whose server is not known."""
    groups: dict[tuple[str, Confirmation | None], list[Delivery]] = {}
    for delivery in deliveries:
        if delivery.result.done():
            continue
        request = delivery.request
        try:
            url = url_of(request.keys[0] if type(request) is ScriptCall else key_of(request))
        except Exception as fault:  # noqa: BLE001  # whatever it is, the caller gets it
            failed(delivery, fault)
            continue
        confirmation = request.confirmation if type(request) is ScriptCall else None
        if len(deliveries) == 1:
            return [Pipeline(url, confirmation, [Merged([delivery], request, delivery.source)])]
        groups.setdefault((url, confirmation), []).append(delivery)
    return [Pipeline(url, confirmation, _merge(group)) for (url, confirmation), group in groups.items()]


def _merge(deliveries: list[Delivery]) -> list[Merged]:
    """Merges calls of one kind, up to the limits of one script; the other requests stay, in order."""
    all_merged: list[Merged] = []
    kinds: dict[Any, Merged] = {}
    for delivery in deliveries:
        request = delivery.request
        if type(request) is not ScriptCall or request.never_merged or not request.items:
            all_merged.append(Merged([delivery], request, delivery.source))
            continue
        kind = (request.script, request.keys, request.args, delivery.source)
        items, size = len(request.items) // request.script.stride, sum(map(len, request.items))
        merged = kinds.get(kind)
        if merged is None or merged.items + items > MOST_ITEMS or merged.size + size > MOST_BYTES:
            merged = kinds[kind] = Merged([delivery], request, delivery.source, items, size)
            all_merged.append(merged)
        else:
            merged.deliveries.append(delivery)
            merged.items += items
            merged.size += size
    for merged in all_merged:
        if len(merged.deliveries) > 1:
            merged.request = merge_calls([delivery.request for delivery in merged.deliveries])
    return all_merged
