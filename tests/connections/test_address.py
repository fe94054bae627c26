"""Which server a URL means, and that no password is ever shown."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

import tarry
from tarry import BadInput, ServerUnfit, Unavailable
from tarry.connections.address import connection_class, find_address
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until
from walked import cases


@cases(
    ("url", "kind", "reached", "shown"),
    [
        ("redis://h", "server", "redis://h", "redis://h"),
        ("redis://h:1/2", "server", "redis://h:1/2", "redis://h:1/2"),
        ("valkey://h:1", "server", "redis://h:1", "valkey://h:1"),
        ("valkeys://h:1", "server", "rediss://h:1", "valkeys://h:1"),
        ("rediss://h:1", "server", "rediss://h:1", "rediss://h:1"),
        ("unix:///run/s.sock?db=2", "server", "unix:///run/s.sock?db=2", "unix:///run/s.sock"),
        ("redis+cluster://a:1,b:2", "cluster", "redis://a:1,b:2", "redis+cluster://a:1,b:2"),
        ("valkey+cluster://a:1", "cluster", "redis://a:1", "valkey+cluster://a:1"),
        ("rediss+cluster://a:1", "cluster", "rediss://a:1", "rediss+cluster://a:1"),
        ("redis+sentinel://a:1,b/m", "sentinel", "redis://a:1,b/m", "redis+sentinel://a:1,b/m"),
        ("valkeys+sentinel://a/m/3", "sentinel", "rediss://a/m/3", "valkeys+sentinel://a/m/3"),
        (
            "redis+sentinel://me:geheim@a/m?sentinel_password=geheim",
            "sentinel",
            "redis://me:geheim@a/m?sentinel_password=geheim",
            "redis+sentinel://a/m",
        ),
        ("redis://me:geheim@h:1", "server", "redis://me:geheim@h:1", "redis://h:1"),
        ("redis://:geheim@h:1", "server", "redis://:geheim@h:1", "redis://h:1"),
        ("redis://me:ge@heim@h:1", "server", "redis://me:ge@heim@h:1", "redis://h:1"),
        ("redis://me:ge#heim@h:1", "server", "redis://me:ge#heim@h:1", "redis://h:1"),
        ("redis://me:ge/heim@h:1", "server", "redis://me:ge/heim@h:1", "redis://h:1"),
        ("redis://me:ge?heim@h:1", "server", "redis://me:ge?heim@h:1", "redis://…"),
        ("redis://me:ge://heim@h:1", "server", "redis://me:ge://heim@h:1", "redis://h:1"),
        ("redis://h:1?password=geheim", "server", "redis://h:1?password=geheim", "redis://h:1"),
        ("redis://h:1?password=a@geheim", "server", "redis://h:1?password=a@geheim", "redis://…"),
        ("redis+cluster://me:geheim@a:1,b:2", "cluster", "redis://me:geheim@a:1,b:2", "redis+cluster://a:1,b:2"),
    ],
)
def test_a_url_means_a_server(url: str, kind: str, reached: str, shown: str) -> None:
    address = find_address(url, {})
    assert (address.kind, address.url, address.redacted) == (kind, reached, shown)
    assert "geheim" not in repr(address)
    assert find_address(None, {"TARRY_URL": url}) == address
    assert find_address("", {"TARRY_URL": url}) == address


@cases(
    "url",
    [
        "unix:///run/s.sock?db=2", "rediss://me:geheim@h:1", "redis+cluster://a:1,b:2", "valkeys+cluster://me:geheim@a:1",
        "redis+sentinel://a:1,b/m", "rediss+sentinel://a/m/3?ssl_ca_certs=/x", "redis+cluster://a:1?views=replica",
        "redis+sentinel://a/m?sentinel_password=geheim&views=replica", "embedded:///some/folder",
    ],
)  # fmt: skip
def test_the_full_url_of_an_address_opens_the_same_server(url: str) -> None:
    """A worker's other clients, and its processes."""
    address = find_address(url, {})
    again = find_address(address.full_url, {})
    assert (again.kind, again.url, again.folder, again.read_from) == (
        address.kind, address.url, address.folder, address.read_from,
    )  # fmt: skip


def test_the_argument_wins_over_the_environment() -> None:
    assert find_address("redis://mine", {"TARRY_URL": "redis://other"}).url == "redis://mine"


@pytest.mark.parametrize("url", [None, "", "embedded://", "embedded:///some/folder"])
def test_the_embedded_server_is_chosen_or_refused(url: str | None) -> None:
    address = find_address(url, {})
    assert (address.kind, address.is_default) == ("embedded", not url)
    assert address.folder == (Path("/some/folder") if url and url.endswith("folder") else None)
    for no in ("no", "NO", "0", "false", "off"):
        with pytest.raises(ServerUnfit, match="TARRY_EMBEDDED=no"):
            find_address(url, {"TARRY_EMBEDDED": no})
    assert find_address(url, {"TARRY_EMBEDDED": "yes"}).kind == "embedded"
    with pytest.raises(BadInput, match="TARRY_EMBEDDED: 'maybe'; it is yes or no"):
        find_address(url, {"TARRY_EMBEDDED": "maybe"})


@cases(
    ("url", "words"),
    [
        ("localhost:6379", "no scheme"),
        ("me:geheim@localhost:6379", "no scheme"),
        (":geheim@localhost", "no scheme"),
        ("http://me:geheim@h", "'http' is unknown"),
        ("redis", "no scheme"),
        ("redis://h?bogus=1", "url: bogus is unknown"),
        ("unix:///s.sock?bogus=1", "url: bogus is unknown"),
        ("redis+cluster://h?views=replica&bogus=1", "url: bogus is unknown"),
        ("redis+sentinel://h/m?sentinel_bogus=1", "url: sentinel_bogus is unknown"),
        ("redis://h?sentinel_password=x", "url: sentinel_password is unknown"),
        ("redis://h?ssl_ca_certs=/x", "ssl_ca_certs is for rediss://"),
        ("redis://me:ge?he=geheim@h:1", "written %23"),
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster:///0", "a host is missing"),
        ("redis+cluster://me:geheim@:7000", "a host is missing"),
        ("rediss+cluster://h:1,,h:2", "a host is missing"),
        ("redis+sentinel:///m", "a host is missing: .*redis[+]sentinel://host:26379/mymaster"),
        ("redis+sentinel://h,:26379/m", "a host is missing"),
        ("unix://", "no socket"),
        ("unix://me:geheim@?db=1", "no socket"),
        (5, "int is not a URL"),
        (b"redis://h", "bytes is not a URL"),
    ],
)
def test_an_invalid_url_is_refused_with_a_message(url: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as told:
        tarry.Client(url)
    assert "geheim" not in str(told.value)


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:gehe#im@h:1", "written %23"),
        ("redis://h:geheim", "a port is a number"),
        ("redis://h:1?socket_timeout=geheim", "Invalid value for 'socket_timeout'"),
    ],
)
def test_a_url_the_driver_cannot_parse_is_refused_with_a_message(url: str, words: str, awaiting: bool) -> None:
    with pytest.raises(BadInput, match=words) as told:
        connection_class(url, awaited=awaiting)
    assert "gehe" not in "".join(traceback.format_exception(told.value)).replace(url, "")


@pytest.mark.parametrize("awaiting", [False, True])
def test_the_url_may_set_the_socket_timeout(awaiting: bool) -> None:
    assert connection_class("redis://h", awaited=awaiting)[2] == 5
    assert connection_class("redis://h?socket_timeout=0.5", awaited=awaiting)[2] == 0.5


@pytest.mark.parametrize("awaiting", [False, True])
def test_the_drivers_own_retries_are_off(awaiting: bool) -> None:
    _, options, _ = connection_class("redis://h?retry_on_timeout=yes&protocol=3&decode_responses=yes", awaited=awaiting)
    assert options["retry"].get_retries() == 0
    assert (options["retry_on_error"], options["retry_on_timeout"]) == ([], False)
    assert (options["protocol"], options["decode_responses"], options["health_check_interval"]) == (2, False, 0)
    assert options["socket_keepalive"]


@pytest.mark.parametrize("awaiting", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        "redis://h?db=2&socket_timeout=1&max_connections=9&health_check_interval=3&username=me&password=a@b",
        "unix:///s.sock?db=2&socket_timeout=1", "rediss://h?ssl_ca_certs=/x&ssl_check_hostname=no",
    ],
)  # fmt: skip
def test_the_url_accepts_the_drivers_options(url: str, awaiting: bool) -> None:
    made, arguments, _ = connection_class(find_address(url, {}).url, awaited=awaiting)
    made(**arguments)


@pytest.mark.skipif(not hasattr(redis, "DriverInfo"), reason="needs a newer redis-py")
def test_the_drivers_metadata_are_read_once_for_all_connections(valkey_url: str) -> None:
    options = [connection_class(valkey_url, awaited=awaited)[1]["driver_info"] for awaited in (False, True)]
    assert options[0] is options[1]
    assert "driver_info" not in connection_class("redis://h?lib_name=shop", awaited=False)[1], "the URL says it"
    made, arguments, _ = connection_class(valkey_url, awaited=False)
    connection = made(**arguments)
    connection.connect()
    connection.send_command("CLIENT", "INFO")
    assert f"lib-name=redis-py lib-ver={redis.__version__}" in connection.read_response().decode()
    connection.disconnect()


@pytest.mark.parametrize("open_client", [tarry.Client, tarry.AsyncClient])
def test_a_missing_database_is_named(own_server: Callable[..., ServerProcess], open_client: Any) -> None:
    url = own_server(port=True, databases=4).url
    with pytest.raises(ServerUnfit, match=r"no database 99, which the URL names; .* leave it out"):
        asked(open_client(f"{url.removesuffix('/0')}/99"))


@pytest.mark.slow
@pytest.mark.parametrize("open_client", [tarry.Client, tarry.AsyncClient])
def test_a_plain_url_of_a_replica_is_explained(own_server: Callable[..., ServerProcess], open_client: Any) -> None:
    """It is waited for, as a fail-over may make it a master; then the words tell."""
    master, replica = own_server(port=True), own_server(port=True)
    host, port = urlsplit(master.url).hostname, urlsplit(master.url).port
    replica.ask("REPLICAOF", str(host), str(port))
    until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "a linked replica")  # type: ignore[operator]
    with pytest.raises(
        Unavailable, match="it is a replica, which takes no writes; give the URL of its master, or redis"
    ):
        asked(open_client(replica.url, patience=0.1))


def asked(client: Any) -> None:
    """One job is put in, by whichever client."""
    if isinstance(client, tarry.Client):
        with client:
            client.topic("a").add("tea")
        return

    async def ping_twice() -> None:
        async with client:
            await client.topic("a").add("tea")

    asyncio.run(ping_twice())


@pytest.mark.slow
def test_the_first_use_without_a_url_is_logged_once(tmp_path: Path) -> None:
    script = (
        "import logging, sys, asyncio, tarry\n"
        "logging.basicConfig(format='%(message)s')\n"
        "clients = [tarry.Client() for _ in range(3)]\n"
        "for client in clients: client.topic('a').add('tea')\n"
        "async def more():\n"
        "    async with tarry.AsyncClient() as client: await client.topic('a').add('tea')\n"
        "asyncio.run(more())\n"
        "for client in clients: client.close()\n"
        f"with tarry.Client('embedded://{tmp_path}/named') as client: client.topic('a').add('tea')\n"
    )
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TARRY_URL": ""}
    told = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    lines = told.stderr.splitlines()
    assert len(lines) == 1, told.stderr
    assert "embedded server" in lines[0]
    assert str(tmp_path) in lines[0]
    assert "TARRY_URL" in lines[0]


@pytest.mark.parametrize("url", ["redis://h:7000/jobs", "rediss://u:p@h/prod?socket_timeout=1"])
def test_a_database_must_be_a_number(url: str) -> None:
    with pytest.raises(BadInput, match="is a number"):
        find_address(url, {})


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(BadInput, match="relative"):
        find_address("embedded://data", {})


def test_embedded_no_names_what_it_refuses() -> None:
    with pytest.raises(ServerUnfit, match="The URL names the embedded server"):
        find_address("embedded:///data", {"TARRY_EMBEDDED": "no"})
    with pytest.raises(ServerUnfit, match="No URL is given"):
        find_address(None, {"TARRY_EMBEDDED": "no"})


def test_a_wrong_address_of_the_environment_is_named_by_its_variable() -> None:
    for given in ("nonsense", "ftp://x", "redis://x/name"):
        with pytest.raises(BadInput, match=r"^TARRY_URL: "):
            find_address(None, {"TARRY_URL": given})
        with pytest.raises(BadInput, match=r"^url: "):
            find_address(given, {"TARRY_URL": "redis://there"})
