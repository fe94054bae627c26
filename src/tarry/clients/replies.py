"""Requests as commands for the server, and the meaning of replies, for both clients.

The blocking and the awaiting runner differ in how they wait. They share everything here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tarry.connections.blocking import append_words, pack
from tarry.connections.faults import ConfirmationLost, Fault, IsReplica, NotNow, ServerRefused
from tarry.core.requests import CannotConfirm, Command, Confirmation, Reply, Request, ScriptCall
from tarry.errors import ServerUnfit, TarryError, Unavailable, Unconfirmed

T = TypeVar("T")
logger = logging.getLogger("tarry.patience")
_CALL_HEADS: dict[tuple[bytes, tuple[bytes, ...], bytes, tuple[bytes, ...]], tuple[int, bytes]] = {}
_MOST_HEADS, _LONGEST_HEAD = 1024, 4096
"""Longer ones, with a value among the arguments, are packed for each call: they would stay in memory."""
_A_KEY = re.compile(r"permissions to access (a|one of the) key")


def key_of(request: Request) -> bytes:
    """Returns the key that decides the server of a request. A command without a key has none: any server will do."""
    if type(request) is ScriptCall:
        return request.keys[0]
    return b"".join(request.args[request.key_index : request.key_index + 1])


def command_of(request: ScriptCall[Any] | Command[Any], clock: bytes) -> bytes:
    """A request as one packed command. The clock is empty, but for tests."""
    if type(request) is Command:
        return pack(request.args)
    words, head = _call_head(request.script.sha, request.keys, clock, request.args)
    items = request.items
    parts = [b"*%d" % (words + len(items)), head]
    append_words(parts, items)
    return b"".join(parts)


def _call_head(sha: bytes, keys: tuple[bytes, ...], clock: bytes, args: tuple[bytes, ...]) -> tuple[int, bytes]:
    """The packed words of a script's call before its items, and their number: the same for all calls of a handle."""
    found = _CALL_HEADS.get((sha, keys, clock, args))
    if found is not None:
        return found
    words = (b"EVALSHA", sha, *_words_of(keys, clock, args))
    parts: list[bytes] = []
    append_words(parts, words)
    head = len(words), b"".join(parts[:-1])
    if len(head[1]) <= _LONGEST_HEAD:
        if len(_CALL_HEADS) >= _MOST_HEADS:
            _CALL_HEADS.clear()
        _CALL_HEADS[sha, keys, clock, args] = head
    return head


def _words_of(keys: tuple[bytes, ...], clock: bytes, args: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return (b"%d" % len(keys), *keys, clock, *args)


def eval_command(request: ScriptCall[Any] | Command[Any], clock: bytes) -> bytes:
    """Like ``command_of`` with the script's text, for a server that does not have the script yet."""
    if isinstance(request, Command):
        return pack(request.args)
    words = _words_of(request.keys, clock, request.args)
    return pack((b"EVAL", request.script.source, *words, *request.items))


def read_only_command(call: Request, clock: bytes, *, with_source: bool = False) -> bytes:
    """Returns a plain command, or a read-only call, for a replica: the server does not let it write."""
    if isinstance(call, Command):
        return pack(call.args)
    script = (b"EVAL_RO", call.script.source) if with_source else (b"EVALSHA_RO", call.script.sha)
    return pack((*script, *_words_of(call.keys, clock, call.args), *call.items))


def refuse_forbidden(forbidden: frozenset[bytes], request: Request) -> None:
    """Raises a ``Fault`` for a script that would be stopped half-way, because its user may not run one of its commands."""
    if isinstance(request, ScriptCall) and (missing := request.script.commands & forbidden):
        names = ", ".join(sorted(name.decode() for name in missing))
        raise ServerRefused(
            ServerUnfit(
                f"The user of the URL may not run {names} on this server, and {request.script.name} needs it; nothing was "
                f"done. Allow it: docs/how-to/secure-the-server.md has the rules."
            )
        )


def with_key(fault: Fault, request: Request) -> Fault:
    """A server that forbids a key does not say which."""
    if not isinstance(fault, ServerRefused) or not _A_KEY.search(str(fault)):
        return fault
    key = key_of(request).decode("utf-8", "replace")
    return ServerRefused(ServerUnfit(f"{fault.error} The key, or one beside it: {key}"))


def commands_by_hash(requests: Sequence[Request], clock: bytes) -> list[bytes]:
    """Commands for a server that has their scripts."""
    return [command_of(request, clock) for request in requests]


def commands_with_source(requests: Sequence[Request], clock: bytes) -> list[bytes]:
    """Commands for a server that has none of their scripts."""
    return [eval_command(request, clock) for request in requests]


def commands_with_first_source(requests: Sequence[Request], clock: bytes) -> list[bytes]:
    """Commands for scripts that the server does not have: the first of each script has the script's text."""
    known: set[Any] = set()
    commands: list[bytes] = []
    for request in requests:
        script = request.script if isinstance(request, ScriptCall) else None
        commands.append(command_of(request, clock) if script in known else eval_command(request, clock))
        known.add(script)
    return commands


def merge_calls(calls: list[ScriptCall[Any]]) -> ScriptCall[Any]:
    """Merges calls of one kind into one."""
    first = calls[0]
    items = [word for call in calls for word in call.items]
    return ScriptCall(
        first.script,
        first.keys,
        first.args,
        list,
        items=items,
        reply_header=first.reply_header,
        confirmation=first.confirmation,
    )


def split_reply(calls: list[ScriptCall[Any]], reply: Reply) -> list[Reply]:
    """Splits the reply to a merged call into the replies of each."""
    lead = calls[0].reply_header
    head, at, cut = reply[:lead], lead, list[Reply]()
    for call in calls:
        size = len(call.items) // call.script.stride
        cut.append(head + reply[at : at + size])
        at += size
    return cut


def refuse_unconfirmable(confirmation: Confirmation, reply: Reply) -> None:
    """Raises a ``Fault`` unless the server answered the probe of a confirmation."""
    if isinstance(reply, ServerRefused):
        why = str(reply).rstrip(".")
        raise ServerRefused(CannotConfirm(f"this server cannot confirm it. {confirmation.requirement}. {why}."))
    if isinstance(reply, Fault):
        raise reply


def decode_reply(request: Request, reply: Reply) -> Any:
    """Decodes a reply, or raises the error that it is."""
    try:
        return request.decode(reply)
    except Exception as fault:  # noqa: BLE001  # whatever it is, who asked is told
        return fault


def check_confirmation(confirmation: Confirmation | None, replies: Sequence[Reply], confirms: set[bytes]) -> None:
    """Raises when a confirmation says that the call's writes are not where they should be; ``ConfirmationLost`` when it has no
    answer, and the call may be repeated. ``confirms``: the confirmations that its server can answer."""
    for reply in replies:
        if isinstance(reply, ServerRefused):
            confirms.clear()  # it is tried again before the next
            raise Unconfirmed(f"Added, but this server cannot confirm it: {reply}")
        if isinstance(reply, Fault):
            raise ConfirmationLost(str(reply))
        if confirmation is not None and (problem := confirmation.check(reply)) is not None:
            raise problem


def unavailable_error(fault: Fault, redacted_url: str, elapsed: float, *, added: bool = False) -> TarryError:
    """Returns the error for a fault when patience is over, or a retry would not help. ``added``: only the confirmation
    was lost, whatever was tried since."""
    if added:
        return Unconfirmed(f"Added, but it was not confirmed within {elapsed:.1f} s: {_hint(fault, redacted_url)}.")
    if isinstance(fault, ServerRefused):
        return fault.error
    why = _hint(fault, redacted_url)
    did, how_long = ("refused", "for") if isinstance(fault, NotNow) else ("did not answer", "within")
    within = f" {how_long} {elapsed:.1f} s" if elapsed >= 0.05 else ""  # there was one try
    error = Unavailable(f"The server at {redacted_url} {did}{within}: {why}. The call is safe to repeat.")
    error.__cause__ = fault
    return error


def _hint(fault: Fault, shown: str) -> str:
    """In a fail-over a replica soon becomes the master, or Sentinels and a Cluster name another one; a plain URL does not change."""
    if isinstance(fault, IsReplica) and "+" not in shown.partition("://")[0]:
        return (
            "it is a replica, which takes no writes; give the URL of its master, or redis+sentinel:// or redis+cluster://, "
            "which find the master"
        )
    return str(fault).rstrip(".")


def log_master_fallback(url: str, fault: Fault) -> None:
    """Logs that a replica could not answer a view, and that its master is asked."""
    shown = urlsplit(url).netloc.rpartition("@")[2]
    logging.getLogger("tarry.views").info("The replica at %s cannot answer: %s. Asking the master.", shown, fault)


WARN_AFTER_TRIES = 6
"""The number of tries that take about a second: after it retries are logged as warnings."""


def log_retry(tries: int, fault: Fault, shown: str, bound_s: float) -> None:
    """Logs that a server does not answer and is tried again: at INFO at once, at WARNING when it lasts."""
    if tries in (0, WARN_AFTER_TRIES):
        why, level = _hint(fault, shown), logging.WARNING if tries else logging.INFO
        does = "refuses for now" if isinstance(fault, NotNow) else "does not answer"
        logger.log(level, "The server at %s %s: %s. Trying again for %g s.", shown, does, why, bound_s)
