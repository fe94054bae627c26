"""What runs under the user of its role: the service with its dashboard, a worker, the command line; and what they say that they
may not do."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import tarry
from connections.roles import rules
from connections.test_acl import user, version_of
from dashboard.conftest import Site
from service.running_service import serve
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded import plain_client
from tarry.programs.dashboard import dashboard_app, sections
from tarry.programs.service.settings import ServiceSettings
from tarry.verbs import acl, tokens
from tarry.worker import Worker, renewal
from until import LONGEST_S
from warm import WarmTarry

PLACES = [
    "valkey",
    *(pytest.param(kind, marks=pytest.mark.otherserver) for kind in ("redis6", "redis8")),
    pytest.param("redis7", marks=[pytest.mark.otherserver, pytest.mark.long]),  # between two that are in the short run
]
STREAMS = ("text/event-stream",)
HAS_NO_NAMESPACE = ("queue", "map", "lock", "queues", "to")
SHOP = "shop-roles"
Opened = Callable[..., str]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(place: str, request: pytest.FixtureRequest) -> str:
    """Its path."""
    url: str = request.getfixturevalue(f"{place}_url")
    return url.removeprefix("unix://")


@pytest.fixture
def url_of(place: str, server: str, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """The URL of a user with a role in the namespace. At the end the server has refused only the expected commands."""
    from contextlib import ExitStack

    plain_client.call_once(server, "ACL", "LOG", "RESET")
    with ExitStack() as stack:

        def opened(role: acl.Role) -> str:
            words = rules(role, SHOP, version=version_of(place))
            return stack.enter_context(user(place, request, f"{SHOP}-{role}", *words))

        yield opened


def refused(server: str) -> set[str]:
    """What the server has refused since: commands, keys, channels."""
    found: Any = plain_client.call_once(server, "ACL", "LOG", "100")
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in found]
    objects = {entry[b"object"].decode() for entry in entries if entry[b"username"].startswith(SHOP.encode())}
    # the driver names itself, and does without
    return objects - {"client|setinfo", *["client", "config|get", "config"][: 3 * is_redis_6_2(server)]}


def is_redis_6_2(server: str) -> bool:
    """Redis 6.2 has no ACL DRYRUN, so the client tries commands; and its ACL log names a command without its subcommand."""
    return b"redis_version:6.2" in bytes(plain_client.call_once(server, "INFO", "server"))  # type: ignore[arg-type]


def shop(value: Any, name: str = "") -> Any:
    """An example whose objects are the shop's."""
    if isinstance(value, dict):
        return {key: shop(one, key) for key, one in value.items()}
    if name in HAS_NO_NAMESPACE and isinstance(value, str):
        return f"{SHOP}-{value}"
    return [shop(one, name) for one in value] if isinstance(value, list) else value


def test_the_service_works_under_its_acl_user(url_of: Opened, server: str) -> None:
    import msgspec

    url = url_of("all")
    settings = ServiceSettings(namespaces=(SHOP,), tokens=True)
    with tarry.Client(url, namespace=SHOP) as client:
        text, id, record = tokens.create_token(os.urandom, ["admin"])
        client.engine.run(tokens.store_token(SHOP, id, record))
        client.topic("orders").add(1, id="7")
    with (
        serve(lambda name: AsyncClient(url, namespace=name), settings) as running,
        httpx.Client(base_url=running.url, timeout=LONGEST_S, headers={"authorization": f"Bearer {text}"}) as http,
    ):
        for row in running.app.routes:
            if row.media in STREAMS or "wait" in row.name or row.name.startswith("signing"):
                continue
            path = row.path.format(
                **{name: shop(row.example.path.get(name, "orders"), name) for name in row.path_names}
            )
            said = None if row.example.request is None else shop(json.loads(msgspec.json.encode(row.example.request)))
            for never in ("wait", "lease"):
                if isinstance(said, dict) and never in said:
                    said[never] = 0
            with http.stream(row.method, path, json=said) as answer:
                if answer.headers.get("content-type", "").startswith(STREAMS):
                    continue
                told = answer.read().decode()
            if row.name == "locks_list_held":
                assert (answer.status_code, json.loads(told)["code"]) == (403, "not_allowed")
                assert "by its name" in told
            else:
                assert answer.status_code < 500, (row.name, told)
                assert not re.search("permission|ACL", told), (row.name, told)
        with tarry.Client(url, namespace=SHOP) as client:
            client.engine.run(tokens.delete_token(SHOP, id))
    assert refused(server) == {"scan"}


def test_the_dashboard_works_under_its_acl_user(url_of: Opened, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_app, "ANSWER_TIMEOUT_S", LONGEST_S)
    url = url_of("all")
    with tarry.Client(url, namespace=SHOP) as client:
        client.topic("orders").add(1, id="7", if_exists="keep")
    site = Site(url, SHOP, {"allow": "admin"}, "").start()
    try:
        with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
            for section in sections.sections():
                query = {"topic": "orders", "id": "7", "name": f"{SHOP}-q", "lock": f"{SHOP}-q"}
                answer = http.get(section.path, params=query, follow_redirects=True)
                assert answer.status_code in (200, 404), (section.path, answer.text)  # no such schedule
                assert "ACL" not in answer.text, section.path
                if section.path in ("/queues", "/maps", "/locks"):
                    assert "may not SCAN: enter a name" in answer.text, section.path
            assert "unknown whether it saves snapshots" in http.get("/server").text
    finally:
        site.close()
    assert refused(server) == {"scan"}


async def until_renewed(topic: tarry.AsyncTopic[Any], id: str) -> None:
    """Until its reservation ends later than it did."""
    ends = set[Any]()
    while len(ends) < 2:
        found = await topic.get(id)
        assert found is not None
        ends.add(found.reserved_until)


def test_a_worker_works_under_its_acl_user(url_of: Opened, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With schedules of its own, a limit, a job that fails, and one whose time it renews: after 0.2 s, of ten minutes."""
    monkeypatch.setattr(renewal, "CHECK_PARTS", 6000)
    monkeypatch.setattr(renewal, "RENEW_PARTS", 3000)
    url, seen = url_of("consumer"), list[Any]()

    async def story() -> None:
        worker = Worker("shop", client=AsyncClient(url, namespace=SHOP), ttr="10m")

        @worker.on("orders", concurrency=4, retry=lambda job, fault: 0)
        async def handle(job: tarry.AsyncJob[Any]) -> None:
            seen.append(job.body)
            if job.body == 1 and job.attempt == 1:
                raise RuntimeError("once more")
            if job.body == 2:
                await until_renewed(client.topic("orders"), job.id)

        @worker.every("200ms", id="often")
        async def often() -> None:
            seen.append("often")

        async with AsyncClient(url, namespace=SHOP) as client:
            await client.topic("orders").purge()
            await client.topic("orders").configure(rate="1000/1s", concurrency=3)
            await client.topic("orders").add_many(range(5))
            running = asyncio.ensure_future(worker.run())
            while "often" not in seen or (await client.topic("orders").stats()).finished < 5:
                assert not running.done()
                await asyncio.sleep(0.01)
            assert len(await client.workers()) == 1
            worker.stop()
            await running
            await client.topic("orders").purge()

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))
    assert seen.count(1) == 2
    assert refused(server) == set()


def test_the_command_line_works_under_its_acl_user(
    url_of: Opened, server: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    """`tarry doctor` and `tarry lock list` show what the user may read, and report what it may not."""
    place = {"TARRY_URL": url_of("all"), "TARRY_NAMESPACE": SHOP, "TARRY_LOG": "ERROR"}

    def cli(*words: str) -> Any:
        return tarry_command.run(words, None, place, tmp_path)

    doctor = cli("doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert "were not searched: this user may not SCAN" in doctor.stderr
    assert "unknown whether it saves snapshots: this user may not CONFIG GET" in doctor.stdout
    locks = cli("lock", "list")
    assert locks.returncode == 3
    assert "by its name, or ask as the server's administrator" in locks.stderr
    name = f"{SHOP}-stock"
    assert cli("lock", "get", name).stdout == f"{name}  free\n"
    made = json.loads(cli("token", "create", "--scope", "view", "--json").stdout)
    assert re.search(rf"^{made['id']}  20\d\d-\S+  view$", cli("token", "list").stdout, re.M), "with its time"
    assert cli("token", "revoke", made["id"]).returncode == 0
    assert refused(server) == {"scan"}


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_other_roles_cannot_create_list_or_revoke_tokens(url_of: Opened, role: acl.Role) -> None:
    with tarry.Client(url_of(role), namespace=SHOP) as client:
        _, id, record = tokens.create_token(os.urandom, ["admin"])
        for request in (
            tokens.store_token(SHOP, id, record),
            tokens.list_tokens(SHOP),
            tokens.table_version(SHOP),
            tokens.delete_token(SHOP, id),
        ):
            with pytest.raises(tarry.ServerUnfit, match="ACL"):
                client.engine.run(request)


def test_doctor_prints_acl_users_that_work_on_this_server(
    server: str, place: str, valkey_url: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    """Each line is taken as it stands, and its user works."""
    called = {"TARRY_URL": f"unix://{server}", "TARRY_NAMESPACE": SHOP, "TARRY_LOG": "ERROR"}
    words = tarry_command.run(("doctor", "--acl", "--objects", "shop:"), None, called, tmp_path).stdout.splitlines()
    said = tarry_command.run(
        ("doctor", "--acl", "--objects", "shop:", "--json"), None, called, tmp_path
    ).stdout.splitlines()
    assert words == [json.loads(line)["line"] for line in said]
    assert words == [f"user {acl.line(role, SHOP, 'shop:', version_of(place))}" for role in acl.ROLES]
    for line in words:
        _, name, *line_of = line.split()
        assert plain_client.call_once(server, "ACL", "SETUSER", name, "reset", *line_of) == b"OK"
        try:
            with tarry.Client(f"unix://{name}:secret@{server}", namespace=SHOP) as client:
                client.topic("orders").add(1, id="7", if_exists="keep")
                if name == "all":
                    assert client.map_cache("shop:prices").get("tea") is None
                    with pytest.raises(tarry.ServerUnfit, match="ACL"):
                        client.map_cache("other:prices").get("tea")
                    client.topic("orders").purge()
        finally:
            plain_client.call_once(server, "ACL", "DELUSER", name)
