"""Tokens: scopes, limits, and how soon a revoked one is refused."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import tarry
from service.running_dashboard import serve_dashboard
from service.running_service import Api, RunningService, serve
from service.test_process import Start, start  # noqa: F401  # a fixture
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.dialects.mounts import Dialects
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import authorization
from tarry.verbs import tokens
from tarry.wire.endpoint import ANY_SCOPE, NO_TOKEN
from until import until
from warm import WarmTarry

Make = Callable[..., str]


@pytest.fixture(scope="module")
def guarded(valkey_url: str) -> Iterator[RunningService]:
    """A service that asks for tokens."""
    settings = ServiceSettings(namespaces=("guarded", "other"), tokens=True)
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running:
        yield running


@pytest.fixture
def make(valkey_url: str) -> Iterator[Make]:
    """Makes a token; all are revoked afterwards."""
    with tarry.Client(valkey_url) as client:
        made: list[tuple[str, str]] = []

        def making(*scopes: str, namespace: str = "guarded", **limits: Any) -> str:
            text, id, record = tokens.create_token(os.urandom, scopes, **limits)
            client.engine.run(tokens.store_token(namespace, id, record))
            made.append((namespace, id))
            return text

        yield making
        for namespace, id in made:
            client.engine.run(tokens.delete_token(namespace, id))


def asking(running_service: RunningService, token: str | None) -> Api:
    return Api(running_service.url, "guarded", **({"authorization": f"Bearer {token}"} if token else {}))


def known(api: Api) -> None:
    """A token that was made a moment ago is known within a second."""
    until(lambda: api("GET", "/v1/topics").status_code == 200)


@pytest.fixture
def calls(guarded: RunningService, make: Make) -> Iterator[Callable[..., Api]]:
    opened: list[Api] = []

    def calling(*scopes: str, **more: Any) -> Api:
        api = asking(guarded, make(*scopes, **more))
        opened.append(api)
        if more.get("namespace", "guarded") == "guarded":
            known(api)
        return api

    yield calling
    for api in opened:
        api.http.close()


def test_a_dialects_namespace_takes_its_own_tokens_only(valkey_url: str, make: Make) -> None:
    settings = ServiceSettings(namespaces=("guarded", "other"), tokens=True)
    mounts = Dialects("other", None, None).mounts("guarded")
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings, mounts) as running:
        for namespace, status in (("other", 200), ("guarded", 403)):
            headers = {"authorization": f"Bearer {make('consume', namespace=namespace)}"}
            answered = partial(httpx.get, f"{running.url}/delay/pop?topic=tea", headers=headers)
            until(lambda answered=answered: answered().status_code != 401, "the token is known")
            assert answered().status_code == status


def test_a_note_has_200_characters_at_most() -> None:
    tokens.create_token(os.urandom, ["view"], note="x" * 200)
    with pytest.raises(tarry.BadInput, match="201 characters; at most 200"):
        tokens.create_token(os.urandom, ["view"], note="x" * 201)


@pytest.mark.slow
def test_without_a_token_only_health_is_answered(guarded: RunningService) -> None:
    api = asking(guarded, None)
    for row in guarded.app.routes:
        path = row.path.replace("{", "").replace("}", "")
        status = httpx.request(row.method, guarded.url + path).status_code
        assert (status == 401) is (row.scopes != NO_TOKEN), row.path
    answer = api("GET", "/v1/topics")
    assert answer.headers["www-authenticate"] == 'Bearer realm="tarry"'
    assert api.refused("GET", "/v1/topics") == (401, "not_allowed")
    api.http.close()


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic dXNlcjpwYXNz", "Bearer tarry_", "Bearer tarry__", "Bearer tarry_0000000000000000_x",
     "tarry_0000000000000000_x", "Bearer \xff"],
)  # fmt: skip
def test_an_invalid_token_is_refused(guarded: RunningService, header: str) -> None:
    answer = httpx.get(f"{guarded.url}/v1/topics", headers={"authorization": header.encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 401


def test_a_token_allows_its_scope_in_its_namespace(calls: Callable[..., Api]) -> None:
    producer, consumer, admin = calls("produce"), calls("consume"), calls("admin")
    producer.post("/v1/topics/scopes/jobs", {"body": 1, "id": "7"}, 201)
    assert producer.refused("POST", "/v1/topics/scopes/pop", {}) == (403, "not_allowed")
    assert producer.refused("GET", "/v1/topics/scopes/jobs") == (403, "not_allowed"), "what others put in"
    assert consumer.refused("POST", "/v1/topics/scopes/jobs", {"body": 1}) == (403, "not_allowed")
    assert consumer.refused("DELETE", "/v1/topics/scopes/jobs/7") == (403, "not_allowed")
    job = consumer.post("/v1/topics/scopes/pop", {})
    for api in (producer, consumer):
        assert api.refused("POST", "/v1/topics/scopes/purge", {}) == (403, "not_allowed")
    consumer.post("/v1/topics/scopes/jobs/7/finish", {"receipt": job["receipt"]}, 204)
    assert admin.post("/v1/topics/scopes/purge", {}) == {"count": 0}
    elsewhere = {"params": {"namespace": "other"}}
    assert admin.refused("GET", "/v1/topics", **elsewhere) == (403, "not_allowed")


def test_a_view_token_sees_everything_and_changes_nothing(guarded: RunningService, calls: Callable[..., Api]) -> None:
    viewer, admin = calls("view"), calls("admin")
    admin.post("/v1/topics/views/jobs", {"body": 1, "id": "seen"}, 201)
    assert viewer.get("/v1/topics/views/jobs/seen")["body"] == 1
    assert [job["id"] for job in viewer.get("/v1/topics/views/jobs")["jobs"]] == ["seen"]
    assert viewer.post("/v1/topics/views/many/get", {"ids": ["seen"]})["jobs"][0]["body"] == 1
    for path in (
        "/v1/schedules",
        "/v1/topics/views/schedules",
        "/v1/locks",
        "/v1/delayed-queues/q",
        "/v1/delayed-queues/q/elements",
    ):
        viewer.get(path)
    for row in guarded.app.routes:
        if row.scopes != NO_TOKEN and row.method != "GET" and row.name not in ("many_get", "maps_look"):
            assert "view" not in row.scopes, row.path
    assert viewer.refused("POST", "/v1/topics/views/pop", {}) == (403, "not_allowed")
    assert viewer.refused("POST", "/v1/delayed-queues/q/take", {}) == (403, "not_allowed")
    admin.post("/v1/topics/views/purge", {})


def test_a_key_belongs_to_its_token(calls: Callable[..., Api]) -> None:
    """Two producers that count their orders do not drop each other's."""
    one, other, admin = calls("produce"), calls("produce"), calls("admin")
    headers = {"idempotency-key": "order-7"}
    for api, body in ((one, "tea"), (other, "coffee"), (one, "tea"), (other, "tea")):
        answer = api("POST", "/v1/topics/keys/jobs", {"body": body}, headers=headers)
        assert answer.status_code == (422 if (api, body) == (other, "tea") else 201)
    assert [job["body"] for job in admin.get("/v1/topics/keys/jobs")["jobs"]] == ["tea", "coffee"]
    admin.post("/v1/topics/keys/purge", {})


def test_every_route_declares_its_scopes(guarded: RunningService) -> None:
    """What changes something never takes any token at all."""
    for row in guarded.app.routes:
        assert row.method == "GET" or row.name == "many_get" or row.scopes not in (ANY_SCOPE, NO_TOKEN), row.path


def test_a_token_selects_its_namespace(guarded: RunningService, make: Make) -> None:
    text = make("admin", namespace="other")
    headers = {"authorization": f"bearer {text}"}
    until(lambda: httpx.get(f"{guarded.url}/v1/topics", headers=headers).status_code == 200)
    httpx.post(f"{guarded.url}/v1/topics/there/jobs", json={"body": 1}, headers=headers).raise_for_status()
    assert httpx.get(f"{guarded.url}/v1/topics", headers=headers).json() == {"topics": ["there"]}
    shown = httpx.get(f"{guarded.url}/metrics", headers=headers).text
    assert 'namespace="other",topic="there"' in shown.replace('state="ready",', "")
    assert 'namespace="guarded"' not in shown


def test_a_revoked_token_is_refused_within_a_second_by_every_service(valkey_url: str, make: Make) -> None:
    settings = ServiceSettings(namespaces=("guarded",), tokens=True)
    text = make("consume")

    def opened(name: str) -> AsyncClient:
        return AsyncClient(valkey_url, namespace=name)

    with serve(opened, settings) as one, serve(opened, settings) as two, tarry.Client(valkey_url) as client:
        apis = [asking(one, text), asking(two, text)]
        for api in apis:
            known(api)
        parts = tokens.split_token(text)
        assert parts is not None
        client.engine.run(tokens.delete_token("guarded", parts[0]))
        ended = time.monotonic()
        for api in apis:
            began = ended
            while api("GET", "/v1/topics").status_code == 200:
                assert began - ended <= authorization.TRUST_TOKENS_FOR_S, "whoever asks later than that is refused"
                began = time.monotonic()
        for api in apis:
            api.http.close()


def test_an_idle_service_does_not_poll_tokens(guarded: RunningService, calls: Callable[..., Api]) -> None:
    """The version is looked at when a request comes, and not again for half a second."""
    calls("consume")
    engine = guarded.app.clients["guarded"].engine
    asked: list[Any] = []
    perform = engine.runner.perform

    async def counting(request: Any) -> Any:
        asked.append(request)
        return await perform(request)

    engine.runner.perform = counting  # type: ignore[method-assign]
    try:
        time.sleep(2 * authorization.TRUST_TOKENS_FOR_S)
        assert not asked
    finally:
        engine.runner.perform = perform  # type: ignore[method-assign]


def test_tokens_are_stored_hashed_and_compared_in_constant_time(
    valkey_url: str, make: Make, guarded: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    text = make("consume")
    _, secret = tokens.split_token(text) or ("", "")
    with redis.Redis.from_url(valkey_url) as server:
        stored = server.hgetall("tarry:guarded:tokens")
    assert secret.encode() not in b"".join([*stored, *stored.values()])
    compared: list[tuple[str, str]] = []

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(authorization, "compare_digest", compare)
    known(api := asking(guarded, text))
    for wrong in (text[:-1] + ("a" if text[-1] != "a" else "b"), "tarry_0000000000000000_x"):
        httpx.get(f"{guarded.url}/v1/topics", headers={"authorization": f"Bearer {wrong}"})
    assert {len(a) for a, _ in compared} == {len(b) for _, b in compared} == {64}, "known id or not"
    assert len(compared) >= 3
    api.http.close()


def test_token_limits_hold_for_calls_and_jobs(calls: Callable[..., Api]) -> None:
    few = calls("produce", jobs=10)
    said = {"jobs": [{"body": n} for n in range(25)]}
    few.post("/v1/topics/limits/many/add", said)
    answer = few("POST", "/v1/topics/limits/many/add", said)
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many")
    assert int(answer.headers["retry-after"]) >= 1, "15 jobs are owed, at 10 a second"
    few.get("/v1/topics/limits/stats")
    slow = calls("consume", calls=0.01)
    assert slow.refused("GET", "/v1/topics") == (429, "too_many")


def test_a_token_bucket_holds_one_second_of_calls() -> None:
    budget = authorization.TokenBucket(10)
    now = time.monotonic()
    assert [budget.take(1, now) for _ in range(10)] == [0] * 10
    assert budget.take(1, now) > 0
    assert budget.take(1, now + 0.2) == 0
    assert budget.take(5, now + 60) == 0
    assert budget.take(5, now + 60) == 0
    assert budget.take(1, now + 60) > 0


# ── no tokens: web pages are no way in ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1", "host": "127.0.0.1"},
        {"origin": "https://127.0.0.1:7070", "host": "127.0.0.1:7070"},
        {"origin": "HTTPS://127.0.0.1:443", "host": "127.0.0.1:443", "sec-fetch-site": "same-origin"},
        {"origin": "http://127.0.0.1:7071", "host": "127.0.0.1:7070"},
        {"origin": "http://127.0.0.1", "host": "127.0.0.1:443"},
        {"origin": "http://127.0.0.1", "host": "127.0.0.1", "x-forwarded-proto": "https"},
        {"origin": "ftp://127.0.0.1", "host": "127.0.0.1"},
        {"origin": "127.0.0.1", "host": "127.0.0.1"},
        {"origin": "", "host": "127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "Cross-Site"},
        {"sec-fetch-site": ""},
        {"host": "evil.example:7070"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "evil.example@127.0.0.1"},
        {"host": "127.0.0.1@evil.example"},
        {"host": "[::1].evil.example"},
        {"host": "["},
        {"host": "127.0.0.1/evil"},
        {"host": "evil.example", "origin": "http://evil.example", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_web_page_of_another_origin_is_refused(real: Api, headers: dict[str, str]) -> None:
    assert real.refused("POST", "/v1/topics/orders/pop", {}, headers=headers) == (403, "not_allowed")


def test_a_web_page_of_the_same_origin_is_accepted(real: Api, running_service: RunningService) -> None:
    headers = {"origin": f"http://127.0.0.1:{running_service.port}", "sec-fetch-site": "same-origin"}
    assert real("POST", "/v1/topics/orders/pop", {}, headers=headers).status_code == 204
    assert real("POST", "/v1/topics/orders/pop", {}, headers={"host": "localhost"}).status_code == 204
    for origin, host, more in (
        ("http://127.0.0.1:80", "127.0.0.1", {}),
        ("http://localhost", "LocalHost:80", {}),
        ("https://localhost", "localhost", {"x-forwarded-proto": "https, http"}),
        ("https://localhost", "localhost:443", {"x-forwarded-proto": "https"}),
    ):
        headers = {"origin": origin, "host": host, **more}
        assert real("POST", "/v1/topics/orders/pop", {}, headers=headers).status_code == 204, headers


@pytest.fixture(scope="module")
def reachable(valkey_url: str) -> Iterator[RunningService]:
    """A service without tokens that other machines reach, as in examples/deploy/compose.yaml."""
    settings = ServiceSettings(
        host="0.0.0.0",
        namespaces=("guarded",),
        allowed_hosts=("jobs.example",),
        allowed_origins=("https://app.example",),
    )
    with serve_dashboard(valkey_url, settings) as running:
        yield running


@pytest.mark.parametrize("path", ["/v1/topics", "/", "/healthz", "/metrics", "/openapi.json", "/assets/dashboard.css"])
def test_a_name_is_answered_only_if_it_is_allowed_at_any_address(reachable: RunningService, path: str) -> None:
    """A web page's own name may resolve to here; then its requests are of the same origin."""
    for host, is_answered in {
        "evil.example:7070": False, "service": False, "localhost": True, "LOCALHOST:7070": True, "10.1.2.3": True,
        "[::1]:7070": True, "[fd00::1]": True, "192.168.0.7:80": True, "jobs.example": True, "Jobs.Example:7070": True,
        "x.jobs.example": False, "jobs.example.evil.example": False,
    }.items():  # fmt: skip
        headers = {"host": host, "sec-fetch-site": "same-origin"}
        status = httpx.get(reachable.url + path, headers=headers).status_code
        assert (status not in (403, 421)) is is_answered, (host, path)


def test_a_page_of_an_allowed_origin_may_call_the_api_but_not_the_dashboard(reachable: RunningService) -> None:
    ours = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type"}
    url = reachable.url + "/v1/topics/orders/jobs"
    preflight = httpx.options(url, headers={**ours, **asked})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    answer = httpx.post(url, headers=ours, json={"body": 1})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (201, "https://app.example")
    refused = httpx.post(url, headers=ours, json={"bodi": 1})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (400, "https://app.example")
    page, act = httpx.get(reachable.url, headers=ours), httpx.post(reachable.url + "/act", headers=ours, data={})
    assert act.status_code == 403
    for other in ("https://evil.example", "http://app.example", "https://app.example.evil.example", "null"):
        theirs = {**ours, "origin": other}
        assert httpx.post(url, headers=theirs, json={"body": 1}).status_code == 403
        found = httpx.options(url, headers={**theirs, **asked})
        assert "access-control-allow-origin" not in found.headers
    for one in (preflight, answer, page, act):
        assert "access-control-allow-credentials" not in one.headers
    for one in (page, act):
        assert "access-control-allow-origin" not in one.headers


def test_a_page_of_an_allowed_origin_needs_a_token_where_tokens_are_required(valkey_url: str, make: Make) -> None:
    """And no cookie is one."""
    settings = ServiceSettings(namespaces=("guarded",), tokens=True, allowed_origins=("https://app.example",))
    text = make("admin")
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running_service:
        api = asking(running_service, text)
        known(api)
        headers = {"origin": "https://app.example"}
        assert api("GET", "/v1/topics", headers=headers).headers["access-control-allow-origin"] == "https://app.example"
        api.http.close()
        cookie = {**headers, "cookie": f"tarry-dashboard={text}"}
        answer = httpx.get(f"{running_service.url}/v1/topics", headers=cookie)
        assert answer.status_code == 401
        assert "access-control-allow-credentials" not in answer.headers


# ── the command line, and the process ────────────────────────────────────────────────────────────────────────────────


def revoke(valkey_url: str, text: str) -> None:
    parts = tokens.split_token(text)
    assert parts is not None
    with tarry.Client(valkey_url) as client:
        client.engine.run(tokens.delete_token("guarded", parts[0]))


@pytest.mark.parametrize("path", ["/v1/events", "/v1/topics/revoked/events"])
def test_an_open_stream_ends_when_its_token_is_revoked(
    valkey_url: str, guarded: RunningService, make: Make, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a second, with room for a busy machine: each look reads the table, however long requests trust it."""
    assert authorization.HELD_CHECK_S <= 0.25
    assert authorization.TRUST_TOKENS_FOR_S <= 0.5
    text = make("view")
    api, other = asking(guarded, text), asking(guarded, make("view"))
    for one in (api, other):
        known(one)
    with api.http.stream("GET", path) as stream, other.http.stream("GET", path) as kept:
        chunks, kept_chunks = stream.iter_raw(), kept.iter_raw()
        assert next(chunks) == next(kept_chunks) == b"retry: 1000\n\n"
        monkeypatch.setattr(authorization, "TRUST_TOKENS_FOR_S", 3600.0)
        revoke(valkey_url, text)
        for _ in chunks:
            pass  # it has an end
        assert guarded.app.held_requests == 1, "the other token's continues"
    until(lambda: guarded.app.held_requests == 0)
    for one in (api, other):
        one.http.close()


def test_an_open_stream_without_a_token_ends_when_tokens_are_required(valkey_url: str, make: Make) -> None:
    settings = ServiceSettings(namespaces=("guarded",), tokens_later=True)
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running_service:
        api = asking(running_service, None)
        with api.http.stream("GET", "/v1/events") as stream:
            chunks = stream.iter_raw()
            next(chunks)
            make("view")
            for _ in chunks:
                pass  # it has an end, though no request came
        assert api("GET", "/v1/events").status_code == 401
        api.http.close()


def test_a_token_has_so_many_streams_also_if_they_are_opened_at_once(
    guarded: RunningService, calls: Callable[..., Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tarry.programs.service.routes import events

    monkeypatch.setattr(events, "MOST_PER_TOKEN", 3)
    greedy, other = calls("view"), calls("view")
    ends = list[Callable[[], None]]()

    def opened(api: Api) -> int:
        answer = api.http.send(api.http.build_request("GET", "/v1/events"), stream=True)
        ends.append(answer.close)
        return answer.status_code

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(opened, [greedy] * 12))
    assert (found.count(200), found.count(429)) == (3, 9)
    assert opened(other) == 200
    for end in ends:
        end()
    until(lambda: guarded.app.held_requests == 0)
    assert opened(greedy) == 200
    ends[-1]()
    until(lambda: guarded.app.held_requests == 0)


@pytest.mark.slow
@pytest.mark.usefixtures("start")
def test_tokens_are_created_listed_and_revoked_on_the_command_line(
    valkey_url: str,
    start: Start,  # noqa: F811
    tarry_command: WarmTarry,
    tmp_path: Path,
) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        here = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": "by-command"}
        return tarry_command.run(["token", *words], None, here, tmp_path)

    made = json.loads(command("create", "--scope", "consume", "--note", "shop", "--calls", "5", "--json").stdout)
    listed = command("list").stdout
    assert made["id"] in listed
    assert "consume  5 calls/s  shop" in listed
    assert made["token"] not in listed
    running = start("--host", "0.0.0.0", "--namespace", "by-command")
    url = running.url.replace("0.0.0.0", "127.0.0.1")
    headers = {"authorization": f"Bearer {made['token']}"}
    assert httpx.get(f"{url}/v1/topics").status_code == 401
    assert httpx.get(f"{url}/v1/topics", headers=headers).status_code == 200
    assert command("revoke", made["id"]).returncode == 0
    until(lambda: httpx.get(f"{url}/v1/topics", headers=headers).status_code == 401)
    assert command("revoke", made["id"]).returncode == 2
    assert command("create", "--scope", "fly").returncode == 2
    assert command("list", "--json").stdout == ""


@pytest.mark.slow
def test_without_tokens_allows_another_address(start: Start) -> None:  # noqa: F811
    running = start("--host", "0.0.0.0", "--without-tokens")
    assert httpx.get(running.url.replace("0.0.0.0", "127.0.0.1") + "/v1/topics").status_code == 200
    assert "not required" in running.output
