"""One pipeline a server, several servers at the same time: all are sent before the first answer is read.

send ──▶ A   send ──▶ B   send ──▶ C        read A ◀──   read B ◀──   read C ◀──
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarry.clients.replies import (
    check_confirmation,
    commands_by_hash,
    commands_with_first_source,
    commands_with_source,
    decode_reply,
    key_of,
    refuse_forbidden,
    refuse_unconfirmable,
    with_key,
)
from tarry.connections.blocking import BUFFERED_TIMEOUT_S, RequestConnection, Server
from tarry.connections.faults import Fault, NoScript
from tarry.core.patience import RetryBudget
from tarry.core.requests import Confirmation, Request, ScriptCall
from tarry.errors import TarryError

if TYPE_CHECKING:
    from tarry.clients.blocking.runner import Runner

Group = tuple[Server, Confirmation | None]
"""A pipeline: requests to one server with the same confirmation after them."""


class Pipelines:
    """One exchange of requests, which may meet any number of faults, in the time that is left of the budget."""

    def __init__(self, runner: Runner, requests: Mapping[int, Request], budget: RetryBudget) -> None:
        self._runner = runner
        self._requests = requests
        self._budget = budget
        self._any_lost = False
        self._answers: dict[int, Any] = {}

    def exchange(self) -> dict[int, Any]:
        """Returns the value, the error or the fault of each."""
        groups = self._groups()
        for said in (
            commands_by_hash,
            commands_with_first_source,
            commands_with_source,
        ):  # the latter for scripts that the server does not have
            self._send_and_read(groups, said)
            unknown = {
                one: [at for at in ats if isinstance(self._answers[at], NoScript)] for one, ats in groups.items()
            }
            groups = {one: ats for one, ats in unknown.items() if ats}
            if not groups:
                break
        return self._answers

    def _groups(self) -> dict[Group, list[int]]:
        """Returns the requests that can be sent, and stores the faults of the others."""
        groups: dict[Group, list[int]] = {}
        met: dict[str, Server | Exception] = {}
        for at, request in self._requests.items():
            try:
                server = self._server_of(key_of(request), met)
                if server.forbidden:
                    refuse_forbidden(server.forbidden, request)
            except (Fault, TarryError) as fault:
                self._answers[at] = fault
            else:
                then = request.confirmation if isinstance(request, ScriptCall) else None
                groups.setdefault((server, then), []).append(at)
        return groups

    def _server_of(self, key: bytes, met: dict[str, Server | Exception]) -> Server:
        """Connects to each server once, and to none when patience is over."""
        if isinstance(nobody := met.get(""), Exception):
            raise nobody
        url = ""
        try:
            url = self._runner.node_url_of(key, self._budget)
            if url not in met:
                met[url] = self._runner.server_of(key, self._budget)
        except (Fault, TarryError) as fault:
            met["" if self._budget.next_delay(0) is None else url] = fault
            raise
        if isinstance(found := met[url], Exception):
            raise found
        return found

    def _send_and_read(
        self,
        groups: Mapping[Group, list[int]],
        outgoing: Callable[[Sequence[Request], bytes], list[bytes]],
    ) -> None:
        sent: dict[Group, RequestConnection] = {}
        sent_at = time.monotonic()
        try:
            for group, ats in groups.items():
                try:
                    sent[group] = self._send(group, outgoing([self._requests[at] for at in ats], self._runner.clock))
                except Fault as fault:
                    self._read_failed(ats, fault)
            for group in list(sent):
                self._read(group, groups[group], sent.pop(group), sent_at)
        finally:
            for connection in sent.values():  # not read: an exception came between
                connection.disconnect()

    def _send(self, group: Group, commands: list[bytes]) -> RequestConnection:
        server, then = group
        if then is None:
            return server.send(commands, self._budget.exchange_timeout)
        probe_confirmation(then, server)
        return server.without_timeout.send([*commands, then.command])  # it blocks its connection for a while

    def _read(self, group: Group, ats: Sequence[int], connection: RequestConnection, sent_at: float) -> None:
        server, then = group
        left_s = sent_at + server.answer_timeout_s - time.monotonic()
        try:
            replies = (server if then is None else server.without_timeout).read(
                connection,
                len(ats) + (then is not None),
                left_s=max(left_s, BUFFERED_TIMEOUT_S) if self._any_lost else None,
            )
        except Fault as fault:
            self._read_failed(ats, fault)
        else:
            self._answered(group, ats, replies)

    def _read_failed(self, ats: Sequence[int], fault: Fault) -> None:
        """The other servers get no more time than they have had already."""
        self._any_lost = True
        self._answers.update(dict.fromkeys(ats, fault))

    def _answered(self, group: Group, ats: Sequence[int], replies: Sequence[Any]) -> None:
        (server, then), more = group, replies[len(ats) :]
        for at, reply in zip(ats, replies, strict=False):
            request = self._requests[at]
            if isinstance(reply, Fault):
                self._answers[at] = with_key(reply, request)
                continue
            self._answers[at] = found = decode_reply(request, reply)
            try:
                check_confirmation(then, more if not isinstance(found, Exception) else (), server.confirms)
            except (Fault, TarryError) as fault:
                self._answers[at] = fault


def probe_confirmation(confirmation: Confirmation, server: Server) -> None:
    """Checks once for each server that it can confirm. Raises a ``Fault``."""
    if confirmation.command[0] not in server.confirms:
        refuse_unconfirmable(confirmation, server.without_timeout.exchange([confirmation.probe])[0])
        server.confirms.add(confirmation.command[0])
