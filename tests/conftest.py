"""The servers as fixtures; what each is, and how it is started, is told in ``tests/servers.py``."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import signal
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme
from _pytest.assertion import rewrite
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default
from hypothesis import HealthCheck, given, is_hypothesis_test, settings, strategies

import server_groups
import servers
import zookeepers
from tarry.clients.testing import Clock, TestClient
from tarry.connections.background import failures
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S

# Stories say what they found when it is not what they expect, whoever tells them first.
pytest.register_assert_rewrite("conformance.jobs", "conformance.queues", "conformance.environment")

# pytest parses what is imported, and two threads that parse at the same time get a SystemError of Python 3.11: in a fresh clone, or
# after a change. One after the other they may.
_parse, _one_parses = rewrite._rewrite_test, threading.Lock()


def _parse_alone(*given: Any) -> Any:
    with _one_parses:
        return _parse(*given)


rewrite._rewrite_test = _parse_alone

# The Redisson of tarry's own tests; what is refused where nobody says one is told in tests/redisson/test_unknown_redisson.py.
os.environ["TARRY_REDISSON"] = "4.7.0"

# How fast examples are drawn says how busy the machine is.
settings.register_profile("tarry", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("tarry"), max_examples=20)
settings.load_profile("tarry")

# A busy machine takes longer than the five seconds of httpx.
for _wait in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _wait, 60.0)

# What a client of httpx trusts is read once: it is most of what one costs.
_make_context, _contexts = default.create_ssl_context, dict[str, ssl.SSLContext]()


def _kept_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    file = os.environ.get("SSL_CERT_FILE")
    if verify is not True or cert is not None or not trust_env or not file:
        return _make_context(verify=verify, cert=cert, trust_env=trust_env)
    if file not in _contexts:
        _contexts[file] = _make_context()
    return _contexts[file]


default.create_ssl_context = _kept_context

# redis-py looks its version up in the files of the distribution, for each connection: a tenth of a small test.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)  # type: ignore[attr-defined]

# A shell that runs this in its background switches Ctrl-C off, for all that is started here, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["plugin_time", "plugin_service", "plugin_browser", "plugin_warm", "pytester"]


LONGEST_FILES = (
    "chaos/test_chaos dashboard/test_browser frameworks/test_celery distributed/test_failover docs/test_blocks docs/test_site service/test_openapi "
    "conformance/test_continuation worker/test_refusals model/test_model packaging frameworks upgrade sqs bench watch "
    "locks/test_zookeeper_faults redisson/test_hash_orders redisson/test_codecs_fuzz model faults/test_watch conformance "
    "distributed/test_views chaos testing names beanstalk worker programs locks dashboard distributed faults connections"
).split()


HEAVY = (
    "clients/test_not_a_service faults/test_cancellation faults/test_closing faults/test_many_missed_holders locks/test_redis_faults "
    "model/test_two_producers redisson/test_codecs_fuzz redisson/test_hash_orders schedules/test_many_due worker/test_cancel "
    "worker/test_error_reports worker/test_idle worker/test_in_hand worker/test_many_topics worker/test_refusals worker/test_unknown_tasks"
).split()
"""One in sixteen of the quick tests, and a quarter of their processor time: they are slow, so ``make check`` leaves them out."""


MADE = (
    "story redisson/delayed/test_delayed_queue redisson/delayed/test_equality redisson/delayed/test_formats redisson/mapcache/test_as_a_dictionary "
    "locks/test_zookeeper_faults locks/test_zookeeper_queue"
).split()
"""What these tests reach of the blocking client is made from the awaited one by ``make blocking``, and
``make lint`` holds it to that: on the blocking client they run in ``make test-long``."""
REPRESENTATIVE = "story/test_youzans_queue story/test_replays story/test_pop story/test_workers".split()
"""But for these, which use what is written by hand below it: connections, repeats, waiting."""


LEFT_OUT = {"slow", "otherserver", "model", "long", "twin"}
QUICK = "not slow and not otherserver and not model and not long"
"""``make check`` begins so."""
WHOLLY = re.compile(r"^pytestmark = .*\bmark\.(slow|otherserver|model|long)\b", re.M)
ROWS = 4
"""``make check`` runs so many rows of a table, from its first to its last, where each needs a server."""


HANG_LATER = (
    "docs model/test_model model/test_keys chaos/test_chaos chaos/test_killed_run dashboard/test_browser service/test_openapi testing/test_plugin sqs/test_losses "
    "distributed/test_migration_killed distributed/test_failover frameworks upgrade packaging watch bench plugins/test_changed "
    "programs/test_cli_refusals scripts/test_small_adds vectors"
).split()
"""A machine that is ten times too slow needs more than the two minutes of ``plugin_hangs`` for these."""


def pytest_configure(config: pytest.Config) -> None:
    """``make check`` draws fewer examples, where a test does not say how many."""
    if QUICK in config.option.markexpr:
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A fifth of the files, whose tests ``make check`` leaves out, need not be read and imported."""
    if QUICK not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    heavy = str(collection_path).partition("/tests/")[2].startswith(tuple(HEAVY))
    return heavy or WHOLLY.search(collection_path.read_text(encoding="utf-8")) is not None or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays for the whole run: the garbage collector need not look through it, again and again. That was
    half of a collection's time, and each process of a run collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Hypothesis prepares itself before the processes of a run are forked: it looks for the letters of UTF-8, and reads all sources for values to
    draw, when it first draws one of them: one number in twenty. Each process would do that again, for up to six seconds."""
    if session.config.option.numprocesses and any(
        is_hypothesis_test(getattr(one, "obj", None)) for one in session.items
    ):
        _draw_once()
    if session.config.option.numprocesses and any(map(_uses_zookeeper, session.items)) and not zookeepers.missing():
        # once for all of them: to start a Java, and to make it warm, is most of what a process has of its own
        stack = ExitStack()
        session.config.stash[_zookeeper_of_all] = stack.enter_context(zookeepers.server())
        session.config.add_cleanup(stack.close)


_zookeeper_of_all = pytest.StashKey[zookeepers.ZooKeeper]()


def _uses_zookeeper(item: pytest.Item) -> bool:
    return "zookeeper" in " ".join((item.name, *getattr(item, "fixturenames", ()))).lower()


@settings(max_examples=2, database=None)  # the first example is the simplest
@given(strategies.text(), strategies.lists(strategies.integers(), min_size=500, max_size=500))
def _draw_once(_text: str, _numbers: list[int]) -> None:
    pass


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what says less than its twin, what needs another server, and what takes long; the longest files come first, or the last one of
    several processes would be waited for."""
    for item in items:
        if _is_one_of(item, HEAVY):
            item.add_marker(pytest.mark.slow)
        if _is_one_of(item, HANG_LATER) and item.get_closest_marker("long") is None:
            item.add_marker(pytest.mark.hangs_after(LONGEST_S))
        if _uses_zookeeper(item):
            item.add_marker(pytest.mark.otherserver)
        params = getattr(getattr(item, "callspec", None), "params", {}).values()
        adapters = [value for value in params if isinstance(value, str) and value in ("sync", "async")]
        if _is_one_of(item, MADE):
            if "sync" in adapters:
                item.add_marker(pytest.mark.twin)
                if not _is_one_of(item, REPRESENTATIVE):
                    item.add_marker(pytest.mark.long)
        elif "async" in adapters:
            item.add_marker(pytest.mark.twin)
    items.sort(key=lambda item: _position(item.nodeid.partition("::")[0].removeprefix("tests/")))
    _mark_rows(items)


def _mark_rows(items: list[pytest.Item]) -> None:
    """Of what ``make check`` runs, those between the ``ROWS`` of a table."""
    tables = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if "valkey_url" in getattr(item, "fixturenames", ()) and LEFT_OUT.isdisjoint(
            mark.name for mark in item.iter_markers()
        ):
            tables[item.nodeid.partition("[")[0]].append(item)
    for rows in tables.values():
        kept = {round((len(rows) - 1) * one / (ROWS - 1)) for one in range(ROWS)}
        for number, item in enumerate(rows):
            if len(rows) > ROWS and number not in kept:
                item.add_marker(pytest.mark.row)


def _is_one_of(item: pytest.Item, places: list[str]) -> bool:
    return item.nodeid.removeprefix("tests/").startswith(tuple(places))


@cache
def _position(file: str) -> int:
    return next((at for at, place in enumerate(LONGEST_FILES) if file.startswith(place)), len(LONGEST_FILES))


@pytest.fixture(autouse=True)
def no_failure_yet() -> None:
    """Those of other tests in this process do not count."""
    failures.forget()


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """TLS trusts one authority instead of all of the system's: to read those takes 25 ms, for each client and process."""
    with pytest.MonkeyPatch.context() as patch:
        trustme.CA().cert_pem.write_to_path(file := tmp_path_factory.mktemp("tls") / "authority.pem")
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_telemetry_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The processes that tests start do without OpenTelemetry's SDK, as those of most users do: redis-py imports it where it is
    installed, and that is a tenth of what a Python with a client costs."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text('import sys\n\nsys.modules["opentelemetry.sdk"] = None\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture
def clock() -> Clock:
    """Imaginary time, for clients that are given it."""
    return Clock()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """Short, and nobody else's: keys of one test never meet those of another."""
    return hashlib.sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()[:12]


@pytest.fixture
def name(namespace: str) -> str:
    """Of what is in no namespace: queues, maps, locks."""
    return namespace


@pytest.fixture
def client(valkey_url: str, clock: Clock, namespace: str) -> Iterator[Any]:
    """By imaginary time."""
    with TestClient(valkey_url, clock, namespace=namespace) as made:
        yield made


@pytest.fixture
def server(valkey_url: str) -> Iterator[Any]:
    """The server itself: these tests look at what no client shows, or write what none would."""
    with redis.Redis.from_url(valkey_url) as raw:
        yield raw


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """Valkey 9 on a unix socket."""
    with servers.server(servers.valkey_binary()) as running:
        yield running.url


@pytest.fixture(scope="session")
def redis8_url() -> Iterator[str]:
    """Redis 8.2 on a unix socket."""
    with servers.server(servers.redis8_binary()) as running:
        yield running.url


@pytest.fixture(scope="session")
def redis7_url() -> Iterator[str]:
    """Redis 7.0 on a unix socket."""
    with servers.short_folder() as folder, servers.server(servers.redis7_binary(folder)) as running:
        yield running.url


@pytest.fixture(scope="session")
def redis6_url() -> Iterator[str]:
    """Redis 6.2 on a unix socket."""
    with servers.server(servers.redis6_binary()) as running:
        yield running.url


@pytest.fixture(scope="module")
def cluster_nodes() -> Iterator[list[tuple[str, int]]]:
    """The addresses of a Cluster of three Valkeys. It ends with its module, as other groups of servers do: idle, they ask each other for
    as long as a process runs, and to start them anew costs less than half a minute of that."""
    with servers.cluster() as nodes:
        yield servers.cluster_addresses(nodes)


@pytest.fixture(scope="session")
def zookeeper(pytestconfig: pytest.Config) -> Iterator[zookeepers.ZooKeeper]:
    """ZooKeeper 3.8; started once for all tests, of all processes."""
    if (shared := pytestconfig.stash.get(_zookeeper_of_all, None)) is not None:
        yield shared
        return
    with zookeepers.server() as running:
        yield running


@pytest.fixture
def own_zookeeper() -> Iterator[zookeepers.ZooKeeper]:
    """A ZooKeeper for this test alone, which may stop, kill or freeze it."""
    with zookeepers.server() as running:
        yield running


@pytest.fixture(scope="module")
def sentinel_url() -> Iterator[str]:
    """A master, a replica and three Sentinels, by the Sentinels."""
    with server_groups.sentinels() as made:
        yield made.url


@pytest.fixture(scope="module")
def constellation() -> Iterator[Callable[[str], server_groups.Sentinels | server_groups.BigCluster]]:
    """``constellation("cluster of valkey")``, or ``"sentinels of redis8"``: started once for a module, when it is first asked for."""
    with ExitStack() as stack:
        made: dict[str, server_groups.Sentinels | server_groups.BigCluster] = {}

        def start(name: str) -> server_groups.Sentinels | server_groups.BigCluster:
            if name not in made:
                kind, _, server = name.partition(" of ")
                folder = stack.enter_context(servers.short_folder())
                start = server_groups.big_cluster if kind == "cluster" else server_groups.sentinels
                made[name] = stack.enter_context(start(servers.binary_of(server, folder)))
            return made[name]

        yield start


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., ServerProcess]]:
    """Start a Valkey for this test alone: ``own_server(maxmemory="2mb", maxmemory_policy="allkeys-lru")``.
    Plain words go to its command line as they are: ``own_server("--rename-command", "EVALSHA", "")``.
    ``port=True`` makes it listen on a loopback port instead of a unix socket. A test that is marked ``servers.ON_BOTH``
    runs on Redis 8 as well.
    """
    with ExitStack() as stack:
        binary = servers.binary_of(getattr(request, "param", "valkey"), stack.enter_context(servers.short_folder()))

        def start(*words: str, port: bool = False, **options: object) -> ServerProcess:
            named = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
            number = servers.free_ports(1)[0] if port else 0
            return stack.enter_context(servers.server(binary, port=number, options=(*words, *named)))

        yield start
