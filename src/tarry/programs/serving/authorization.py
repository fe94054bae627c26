"""Authorization: which request may do what, and how much of it.

    no tokens needed (loopback)    until the first one is created, or forever with --without-tokens
                                   requests of web pages of other origins are refused: a browser must be no way in (web_pages.py)
    tokens                         Authorization: Bearer tarry_ID_SECRET  ─▶  found by ID, compared in constant time

A service caches the tables of tokens of its namespaces. It checks their versions when it last did so more than
``TRUST_TOKENS_FOR_S`` ago: a revoked token is refused within a second everywhere, and an idle service sends nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Protocol, get_args

from tarry.errors import TarryError
from tarry.internal import NamespaceVerbs, perform, split_token, supervise_task
from tarry.programs.serving.problems import Forbidden, NoToken, TooMany
from tarry.programs.serving.web_pages import LOOPBACK_NAME, is_known_host, is_own_origin, knows_tls
from tarry.wire.endpoint import Scope

if TYPE_CHECKING:
    from tarry.internal import Token
    from tarry.programs.serving.namespace_clients import NamespaceClients

TRUST_TOKENS_FOR_S = 0.5
HELD_CHECK_S = 0.25
"""How often the tokens of held requests are checked, by tables that are read for it: a wait or a stream ends so soon after its
token was revoked, and a busy machine has the rest of the second."""
WORK = "tarry held requests"
REVOKED = "This token was revoked while the request waited."
UNKNOWN_HOST = (
    "Without tokens this service answers to localhost and to addresses only, or a web page could reach it under a name of its own. "
    "Start it with --allow-host NAME to allow a name."
)
OTHER_ORIGIN = (
    "Without tokens this service answers no web page of another origin: scheme, host and port. Start it with --allow-origin to allow one. "
    "A proxy with TLS before it has to send X-Forwarded-Proto: https."
)
UNKNOWN_PAGE = (
    "Without tokens this service answers no GET of a browser that would change something, unless the browser says which page sent it "
    "(Sec-Fetch-Site). Browsers say so to localhost and over TLS. Other programs: name yourself otherwise than Mozilla in User-Agent."
)
_NOBODY = "0" * 64
"""The hash of no token's secret."""


class TokenSettings(Protocol):
    """The settings of a service, as far as authorization depends on them."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The first is the default."""
        ...

    @property
    def tokens(self) -> bool:
        """Requests need a token."""
        ...

    @property
    def tokens_later(self) -> bool:
        """Requests need a token as soon as the first one is created."""
        ...

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The names in lower case under which it answers without tokens, besides ``localhost`` and addresses."""
        ...

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """The origins whose pages may send requests."""
        ...


class ScopedRoute(Protocol):
    """A route, as far as authorization depends on it."""

    @property
    def scopes(self) -> frozenset[Scope]:
        """A token needs one of them; without any, the route needs no token."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace that it is about, whatever the request says."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether it is about one namespace, which a request may choose."""
        ...


class TokenBucket:
    """A token bucket: ``rate`` a second, and a second's worth at once. Taking more goes into debt, which is paid off first."""

    __slots__ = ("_level", "_rate", "_updated_at")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._level = max(rate, 1.0)
        self._updated_at = time.monotonic()

    def take(self, n: int, now: float) -> float:
        """Takes ``n`` and returns 0, or returns in how many seconds to try again."""
        most = max(self._rate, 1.0)
        self._level = min(self._level + (now - self._updated_at) * self._rate, most)
        self._updated_at = now
        if self._level < min(1.0, n):
            return (1.0 - self._level) / self._rate
        self._level -= n
        return 0.0


@dataclass(slots=True)
class Credential:
    """A known token, and what is left of its limits in this process."""

    namespace: str
    token: Token
    calls: TokenBucket | None
    jobs: TokenBucket | None


@dataclass(slots=True)
class TokenTable:
    """The cached tokens of one namespace."""

    version: int = -1
    checked_at: float = -math.inf
    credentials: dict[str, Credential] = field(default_factory=dict)
    refreshing: asyncio.Task[None] | None = None


class Authorizer:
    """Checks the tokens, scopes and limits of requests."""

    def __init__(self, settings: TokenSettings, clients: NamespaceClients, on_first_token: Callable[[], None]) -> None:
        """``on_first_token`` is called when the first token was found: from then on requests need one."""
        self.settings = settings
        self._on_first_token = on_first_token
        self._clients = clients
        self._token_tables: dict[str, TokenTable] = {}
        self._no_token_until = 0.0
        """Until then it is known that there is no token, where the first one is looked for."""
        self._hosts: set[bytes] = set()
        self._held: dict[object, tuple[Credential | None, Callable[[], object]]] = {}
        """The requests that are held, and how each is told that its token was revoked."""
        self._watch: asyncio.Task[None] | None = None

    async def authorize(
        self, route: ScopedRoute, scope: Mapping[str, Any], headers: Mapping[bytes, bytes], query: dict[str, str]
    ) -> tuple[str, Credential | None]:
        """Checks a request. Returns its namespace, and its credential where tokens are required. Raises an ``HTTPError``."""
        given_namespace = query.pop("namespace", None) if query and route.namespaced and not route.namespace else None
        namespace = route.namespace or given_namespace
        if route.scopes and self.settings.tokens_later:
            await self.detect_first_token()
        if not self.settings.tokens:
            self._refuse_cross_origin(scope, headers)
            return namespace or self.settings.namespaces[0], None
        if route.scopes:
            found = await self._authenticate_header(headers.get(b"authorization", b""))
            self.check_scopes(found, route.scopes)
            if namespace is not None and namespace != found.namespace:
                raise Forbidden(f"This token is of the namespace {found.namespace!r}, not of {namespace!r}.")
            self.count_call(found)
            return found.namespace, found
        return "", None

    async def visible_namespaces(self, headers: Mapping[bytes, bytes]) -> Sequence[str]:
        """The namespaces that a request to a route without scopes may see: its token's, or all where no token is required."""
        with suppress(TarryError, NoToken):
            await self.detect_first_token()
            if not self.settings.tokens:
                return self.settings.namespaces
            if (header := headers.get(b"authorization")) is not None:
                return ((await self._authenticate_header(header)).namespace,)
        return ()

    def check_scopes(self, credential: Credential, scopes: frozenset[Scope]) -> None:
        """Raises ``Forbidden`` unless the token has one of these scopes."""
        own = credential.token.record.scopes
        if scopes.isdisjoint(own):
            has, needs = ", ".join(own), " or ".join(one for one in get_args(Scope) if one in scopes)
            raise Forbidden(f"This token has the scope {has}; this needs {needs}.")

    def count_call(self, credential: Credential) -> None:
        """Counts a call against the token's limit. Raises ``TooMany``."""
        _take_tokens(credential.calls, 1, "calls")

    def count_jobs(self, credential: Credential | None, jobs: int) -> None:
        """Counts the jobs of a request against its token's limit. Raises ``TooMany``."""
        if credential is not None and jobs:
            _take_tokens(credential.jobs, jobs, "jobs")

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _authenticate_header(self, header: bytes) -> Credential:
        kind, _, text = header.decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            raise NoToken
        return await self.authenticate(text.strip())

    async def authenticate(self, text: str) -> Credential:
        """Finds the credential of a token. Raises ``NoToken``."""
        parts = split_token(text)
        if parts is None:
            raise NoToken(
                "This is not a token of tarry: a token begins with tarry_ and is shown once, by `tarry token create`."
            )
        found = await self.find_credential(parts.id)
        if not compare_digest(parts.hash, found.token.record.hash if found else _NOBODY) or found is None:
            raise NoToken("This token is not known: it was revoked, or is of another server or namespace.")
        return found

    def knows_token(self, text: str) -> bool:
        """Whether it is a token, or the access key of one, by the tables as they are known. It only decides who waits for whom: a request
        is authorized later."""
        return self.known_credential(text) is not None

    def known_credential(self, text: str) -> Credential | None:
        """The credential of a token, or of an access key, by the tables as they are known."""
        parts = split_token(text)
        id = text if parts is None else parts.id
        known = next((table.credentials[id] for table in self._token_tables.values() if id in table.credentials), None)
        if known is None or parts is None or compare_digest(parts.hash, known.token.record.hash):
            return known
        return None

    async def find_credential(self, id: str) -> Credential | None:
        """The credential of the token with this id. Whether the caller has its secret is not checked."""
        found = None
        for table in await self._tables():
            found = found or table.credentials.get(id)
        return found

    async def detect_first_token(self) -> None:
        """Requires tokens as soon as the first one exists, in a service that started without."""
        if self.settings.tokens or not self.settings.tokens_later or time.monotonic() < self._no_token_until:
            return
        found = await self._tables()
        self._no_token_until = min(table.checked_at for table in found) + TRUST_TOKENS_FOR_S
        # another request may have found it meanwhile
        if any(table.credentials for table in found) and not self.settings.tokens:
            self._on_first_token()

    def refusal_of(self, credential: Credential | None) -> NoToken | None:
        """Why a request with this credential would be refused now, by the tables as they are known: its token was revoked. Without one:
        tokens are required."""
        if credential is None:
            return NoToken() if self.settings.tokens else None
        is_known = credential.token.id in self._token_tables[credential.namespace].credentials
        return None if is_known else NoToken(REVOKED)

    async def check_again(self, credential: Credential | None) -> None:
        """Checks the credential of a request that was authorized some time ago. Raises ``NoToken``."""
        await self._look()
        if refusal := self.refusal_of(credential):
            raise refusal

    @contextmanager
    def telling_refusal(self, credential: Credential | None, tell: Callable[[], object]) -> Generator[None]:
        """For as long as the block lasts: calls ``tell`` at each look at which a request with this credential would be refused."""
        if not (self.settings.tokens or self.settings.tokens_later):
            yield  # no request needs a token, ever
            return
        held = object()
        self._held[held] = (credential, tell)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(supervise_task(WORK, self._watch_held), name=WORK)
        try:
            yield
        finally:
            del self._held[held]

    async def _watch_held(self) -> None:
        """One look for all that is held, as long as there is any."""
        while self._held:
            with suppress(TarryError):  # a server that does not answer says nothing about tokens
                await self._look(trust_s=0.0)
            for credential, tell in list(self._held.values()):
                if self.refusal_of(credential):
                    tell()
            await asyncio.sleep(HELD_CHECK_S)

    async def _look(self, *, trust_s: float | None = None) -> None:
        """Reads the tables again where they are too old."""
        if self.settings.tokens:
            await self._tables(trust_s)
        else:
            await self.detect_first_token()

    async def _tables(self, trust_s: float | None = None) -> list[TokenTable]:
        """The tables of all namespaces, refreshed where they are too old."""
        trusted_since = time.monotonic() - (TRUST_TOKENS_FOR_S if trust_s is None else trust_s)
        found = list[TokenTable]()
        for namespace in self._clients.namespaces:
            table = self._token_tables.get(namespace)
            if table is None:
                table = self._token_tables[namespace] = TokenTable()
            if table.checked_at < trusted_since:
                await self._refresh_once(namespace, table)
            found.append(table)
        return found

    async def _refresh_once(self, namespace: str, table: TokenTable) -> None:
        """Refreshes once for all requests that need it at the same time."""
        if table.refreshing is None or table.refreshing.done():
            table.refreshing = asyncio.ensure_future(self._refresh(namespace, table))
        await asyncio.shield(table.refreshing)

    async def _refresh(self, namespace: str, table: TokenTable) -> None:
        began, client = time.monotonic(), self._clients[namespace]
        if await perform(client, NamespaceVerbs(namespace).token_version()) != table.version:
            version, listed = await perform(client, NamespaceVerbs(namespace).list_tokens())
            before = table.credentials
            table.credentials = {
                token.id: before.get(token.id) or _make_credential(namespace, token) for token in listed
            }
            table.version = version
        table.checked_at = began

    # ── no tokens ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _refuse_cross_origin(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
        """A page of another origin can make a browser send requests here, and its host name can resolve to this machine."""
        if b"host" in headers and headers[b"host"] not in self._hosts:
            host = headers[b"host"]
            if host and not is_known_host(host.decode("latin-1"), (LOOPBACK_NAME, *self.settings.allowed_hosts)):
                raise Forbidden(UNKNOWN_HOST)
            if len(self._hosts) < 100:
                self._hosts.add(host)
        origin = None if b"origin" not in headers else headers[b"origin"].decode("latin-1")
        if origin in self.settings.allowed_origins:
            return
        if b"sec-fetch-site" in headers and headers[b"sec-fetch-site"] not in (b"same-origin", b"none"):
            raise Forbidden(OTHER_ORIGIN)
        if origin is not None:
            tls = knows_tls(scope.get("scheme", "http"), headers.get(b"x-forwarded-proto", b"").decode("latin-1"))
            if not is_own_origin(origin, "https" if tls else "http", headers.get(b"host", b"").decode("latin-1")):
                raise Forbidden(OTHER_ORIGIN)


def refuse_unknown_page(method: str, headers: Mapping[bytes, bytes], credential: Credential | None) -> None:
    """For routes that change something by GET, which a page of another origin can make a browser send. Raises ``Forbidden`` where no
    token is required and a browser does not say whose page it was: over plain HTTP it says so to its own machine only (decision 0118)."""
    is_browser = headers.get(b"user-agent", b"").startswith(b"Mozilla/")
    if credential is None and method in ("GET", "HEAD") and is_browser and b"sec-fetch-site" not in headers:
        raise Forbidden(UNKNOWN_PAGE)


def _make_credential(namespace: str, token: Token) -> Credential:
    limits = token.record.calls, token.record.jobs
    calls, jobs = [None if limit is None else TokenBucket(limit) for limit in limits]
    return Credential(namespace, token, calls, jobs)


def _take_tokens(budget: TokenBucket | None, n: int, label: str) -> None:
    if budget is not None and (wait := budget.take(n, time.monotonic())):
        given = f"This token's {label} a second are used up; the next in {wait:.1f} s."
        raise TooMany(given, retry_after=str(math.ceil(wait)))
