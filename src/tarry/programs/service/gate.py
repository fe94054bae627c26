"""The gate: who may do what, and how much of it.

    no tokens asked for (loopback)    until there is one, unless the service was told never to ask; requests of web pages of other origins are refused: a browser must be no way in
    tokens                            Authorization: Bearer tarry_ID_SECRET  ─▶  found by ID, compared in constant time

A service keeps the tables of tokens of its namespaces, and looks at their versions before it trusts them for longer than
``TRUSTED_S``: a token that was revoked is refused within a second everywhere, and an idle service asks nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tarry.programs.service.problems import Forbidden, NoToken, TooMany
from tarry.programs.service.settings import Settings, is_loopback
from tarry.verbs import tokens

if TYPE_CHECKING:
    from tarry.programs.service.clients import Clients
    from tarry.programs.service.exchange import Exchange

TRUSTED_S = 0.5
_NOBODY = tokens.hash_of("nobody")


class Budget:
    """So many a second, a second's worth at once. What is taken beyond is owed first."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._level = max(rate, 1.0)
        self._at = time.monotonic()

    def take(self, n: int, now: float) -> float:
        """Takes so many, or answers in how many seconds there will be some."""
        most = max(self._rate, 1.0)
        self._level = min(self._level + (now - self._at) * self._rate, most)
        self._at = now
        if self._level < min(1.0, n):
            return (1.0 - self._level) / self._rate
        self._level -= n
        return 0.0


@dataclass(slots=True)
class Pass:
    """A token that is known, and what is left of its limits in this process."""

    namespace: str
    token: tokens.Token
    calls: Budget | None
    jobs: Budget | None


@dataclass(slots=True)
class Known:
    """The tokens of one namespace, as they were when last looked at."""

    version: int = -1
    looked: float = -math.inf
    passes: dict[str, Pass] = field(default_factory=dict)
    looking: asyncio.Task[None] | None = None


class Gate:
    """Lets requests in, or not."""

    def __init__(self, settings: Settings, clients: Clients, first_token: Callable[[], None]) -> None:
        """``first_token`` is called when tokens are asked for from now on."""
        self.settings = settings
        self._first_token = first_token
        self._clients = clients
        self._known: dict[str, Known] = {}
        self._hosts: set[bytes] = set()

    async def let_in(self, x: Exchange, query: dict[str, str]) -> None:
        """Says which namespace a request is about. Raises a ``Refusal``."""
        row = x.row
        said = query.pop("namespace", None) if row.namespaced and not row.namespace else None
        named = row.namespace or said
        if row.may:
            await self.notice_tokens()
        if not self.settings.tokens:
            self._refuse_foreign(x.headers)
            x.namespace = named or self.settings.namespaces[0]
        elif row.may:
            x.passed = found = await self._pass_of(x.headers.get(b"authorization", b""))
            if row.may.isdisjoint(found.token.record.scopes):
                has, needs = (
                    ", ".join(found.token.record.scopes),
                    " or ".join(one for one in tokens.SCOPES if one in row.may),
                )
                raise Forbidden(f"This token has the scope {has}; this needs {needs}.")
            if named is not None and named != found.namespace:
                raise Forbidden(f"This token is of the namespace {found.namespace!r}, not of {named!r}.")
            x.namespace = found.namespace
            _take(found.calls, 1, "calls")

    def count(self, x: Exchange, jobs: int) -> None:
        """Jobs that a request puts in or asks for. Raises ``TooMany``."""
        if x.passed is not None and jobs:
            _take(x.passed.jobs, jobs, "jobs")

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _pass_of(self, header: bytes) -> Pass:
        kind, _, text = header.decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            raise NoToken
        return await self.pass_of(text.strip())

    async def pass_of(self, text: str) -> Pass:
        """What is known of a token. Raises ``NoToken``."""
        parts = tokens.split_token(text)
        if parts is None:
            raise NoToken(
                "This is no token of tarry: one begins with tarry_ and was shown once, by `tarry token create`."
            )
        id, secret = parts
        found = None
        for known in await self._tables():
            found = found or known.passes.get(id)
        hashed = tokens.hash_of(secret)
        if not compare_digest(hashed, found.token.record.hash if found else _NOBODY) or found is None:
            raise NoToken("This token is not known: it was revoked, or is of another server or namespace.")
        return found

    async def notice_tokens(self) -> None:
        """A service that began without tokens asks for them as soon as there is one."""
        if self.settings.tokens or not self.settings.tokens_later:
            return
        found = await self._tables()
        if any(known.passes for known in found) and not self.settings.tokens:  # nobody else has seen it meanwhile
            self._first_token()

    async def _tables(self) -> list[Known]:
        """What is known of all namespaces, none of it older than may be trusted."""
        found = list[Known]()
        for namespace in self._clients.namespaces:
            known = self._known.setdefault(namespace, Known())
            if time.monotonic() - known.looked > TRUSTED_S:
                await self._look(namespace, known)
            found.append(known)
        return found

    async def _look(self, namespace: str, known: Known) -> None:
        """Looks once for all who ask at the same time."""
        if known.looking is None or known.looking.done():
            known.looking = asyncio.ensure_future(self._refresh(namespace, known))
        await asyncio.shield(known.looking)

    async def _refresh(self, namespace: str, known: Known) -> None:
        began, engine = time.monotonic(), self._clients[namespace].engine
        if await engine.run(tokens.table_version(namespace)) != known.version:
            version, listed = await engine.run(tokens.list_tokens(namespace))
            before = known.passes
            known.passes = {token.id: before.get(token.id) or _pass(namespace, token) for token in listed}
            known.version = version
        known.looked = began

    # ── no tokens ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_foreign(self, headers: Mapping[bytes, bytes]) -> None:
        """A page of another origin can make a browser send requests here; and its name can be made to mean loopback."""
        host = headers.get(b"host", b"")
        if host not in self._hosts:
            if self.settings.on_loopback and host and not is_loopback(_hostname(host)):
                raise Forbidden("Without tokens this service answers to names of this machine only, such as localhost.")
            if len(self._hosts) < 100:
                self._hosts.add(host)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            raise Forbidden("Without tokens this service answers no web page of another origin.")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            raise Forbidden("Without tokens this service answers no web page of another origin.")


def _hostname(host: bytes) -> str:
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


def _pass(namespace: str, token: tokens.Token) -> Pass:
    limits = token.record.calls, token.record.jobs
    calls, jobs = [None if limit is None else Budget(limit) for limit in limits]
    return Pass(namespace, token, calls, jobs)


def _take(budget: Budget | None, n: int, what: str) -> None:
    if budget is not None and (wait := budget.take(n, time.monotonic())):
        said = f"This token's {what} a second are used up; the next in {wait:.1f} s."
        raise TooMany(said, retry_after=str(math.ceil(wait)))
