"""Who may look and who may act; what other sites cannot do; what every answer forbids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from starlette.requests import Request

import tarry
from dashboard.conftest import Site
from tarry.programs.dashboard.access import cookies_of
from until import LONGEST_S
from walked import cases

FORM = {"content-type": "application/x-www-form-urlencoded"}
OURS = {"sec-fetch-site": "same-origin"}
PAGES = (
    "/",
    "/topic?topic=orders",
    "/jobs?topic=orders",
    "/dead?topic=orders",
    "/job?topic=orders&id=7",
    "/find?q=x",
    "/schedules",
    "/schedules?topic=orders",
    "/schedule?topic=orders&name=daily",
    "/workers",
    "/queues",
    "/server",
)


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=LONGEST_S) as http:
        yield http


def delete(http: httpx.Client, site: Site, headers: dict[str, str]) -> httpx.Response:
    data = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}
    return http.post(site.at + "/act", data=data, headers=headers)


@pytest.mark.slow
@cases("path", [*PAGES, "/nowhere", "/job?topic=orders&id=none", "/jobs?topic=%00", "/sign-in"])
def test_every_page_has_a_strict_content_security_policy(
    site: Site, http: httpx.Client, client: tarry.Client, path: str
) -> None:
    client.topic("orders").add(0, delay="1h", id="7", if_exists="keep")
    client.schedules.put("orders", "daily", every="1d")
    answer = http.get(site.at + path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "style=" not in answer.text
    assert " on" not in "".join(part for part in answer.text.split("<script")[1:] if not part.startswith(" defer"))


@pytest.fixture
def mounted(site_of: Callable[..., Site], valkey_url: str) -> Site:
    return site_of(valkey_url, root="/ops/tarry", allow="admin")


@pytest.mark.slow
@cases("path", PAGES)
def test_every_page_works_below_a_mount_path(
    mounted: Site, http: httpx.Client, client: tarry.Client, path: str
) -> None:
    client.topic("orders").add(0, delay="1h", id="7", if_exists="keep")
    client.schedules.put("orders", "daily", every="1d")
    text = http.get(mounted.at + path).text
    linked = [
        part.split('"')[0] for part in text.replace('action="', 'href="').replace('src="', 'href="').split('href="')[1:]
    ]
    assert linked
    assert all(link.startswith(("/ops/tarry/", "#")) for link in linked), linked


@pytest.mark.slow
@cases(
    ("headers", "status"),
    [
        ({}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "OURS"}, 403),
        (OURS, 303),
        ({"origin": "OURS"}, 303),
    ],
)
def test_requests_of_another_site_are_refused(
    site: Site, http: httpx.Client, client: tarry.Client, headers: dict[str, str], status: int
) -> None:
    client.topic("orders").add(0, id="7", if_exists="keep")
    headers = {name: site.at if value == "OURS" else value for name, value in headers.items()}
    assert delete(http, site, headers).status_code == status
    assert (client.topic("orders").get("7") is None) == (status == 303)


async def judge(token: str) -> str | None:
    return {"look": "viewer", "act": "admin"}.get(token)


@pytest.fixture
def of_tokens(site_of: Callable[..., Site], valkey_url: str) -> Site:
    """One to which people sign in."""
    return site_of(valkey_url, tokens=judge)


@pytest.fixture
def of_two_hosts(site_of: Callable[..., Site], valkey_url: str) -> Site:
    return site_of(valkey_url, allow="admin", hosts=["localhost", "127.0.0.1"])


@cases("text", ["http://[", "[", "http://[::1", "//", "http://a]b", "", "\xff", "%", "http://", ":"])
def test_a_header_that_is_no_url_is_refused(of_tokens: Site, of_two_hosts: Site, http: httpx.Client, text: str) -> None:
    raw = text.encode("latin-1")
    for site in (of_tokens, of_two_hosts):
        for path in ("/", "/act", "/sign-in", "/sign-out"):
            for name in (b"origin", b"host", b"referer"):
                answer = http.post(site.at + path, headers=[(name, raw)], data={"token": "look"})
                assert 300 <= answer.status_code < 500, (path, name, answer.text)


def test_a_long_cookie_is_left_out_and_a_quoted_one_is_read() -> None:
    """Nothing of what is longer than a token is taken apart: that took the square of its length."""

    def read(text: str) -> dict[str, str]:
        return cookies_of(Request({"type": "http", "headers": [(b"cookie", text.encode("latin-1"))]}))

    assert read('a=1; tarry-dashboard="' + "\\" * 60_000 + '"; b=2') == {"a": "1", "b": "2"}
    for token in ("tarry_1_x-Y", 'with "quotes", \\ and; more', "\xfc"):
        jar: SimpleCookie[str] = SimpleCookie()
        jar["tarry-dashboard"] = token
        assert read(jar["tarry-dashboard"].OutputString()) == {"tarry-dashboard": token}


@cases(
    "query", ["after=999999999999999", "before=999999999999999", "after=1%0A2", "after=0001-01-01T00:00%2B01:00", "after=" + "9" * 5000 + "s"]
)  # fmt: skip
def test_a_query_that_is_no_time_is_refused(site: Site, http: httpx.Client, client: tarry.Client, query: str) -> None:
    client.topic("orders").add(0)
    assert http.get(f"{site.at}/jobs?topic=orders&{query}").status_code == 400


@pytest.mark.parametrize("allow", ["viewer", lambda scope: "viewer"])
def test_a_viewer_cannot_act(
    site_of: Callable[..., Site], valkey_url: str, http: httpx.Client, client: tarry.Client, allow: Any
) -> None:
    site = site_of(valkey_url, allow=allow)
    client.topic("orders").add(0, id="7")
    client.schedules.put("orders", "daily", every="1d")
    assert delete(http, site, OURS).status_code == 403
    assert client.topic("orders").get("7") is not None
    for path in PAGES:
        answer = http.get(site.at + path)
        assert (answer.status_code, "/act" in answer.text) == (200, False), path


@pytest.mark.parametrize("allow", [lambda scope: None, lambda scope: "root"])
def test_a_user_without_access_sees_nothing(
    site_of: Callable[..., Site], valkey_url: str, http: httpx.Client, client: tarry.Client, allow: Any
) -> None:
    site = site_of(valkey_url, allow=allow)
    client.topic("secret-topic").add(0)
    for path in PAGES:
        answer = http.get(site.at + path)
        assert (answer.status_code, "secret-topic" in answer.text) == (403, False)


def test_a_browser_signs_in_with_a_token(of_tokens: Site, http: httpx.Client, client: tarry.Client) -> None:
    site = of_tokens
    client.topic("orders").add(0, id="7")
    assert http.get(site.at + "/").headers["location"] == "/sign-in"
    assert http.get(site.at + "/", headers={"accept": "text/event-stream"}).status_code == 403
    assert http.post(site.at + "/sign-in", data={"token": "look"}).status_code == 403, "sent by another site"
    assert http.post(site.at + "/sign-in", data={"token": "wrong"}, headers=OURS).status_code == 403
    assert not http.cookies

    signed = http.post(site.at + "/sign-in", data={"token": "look"}, headers=OURS)
    assert signed.status_code == 303
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert http.get(site.at + "/").status_code == 200
    assert delete(http, site, OURS).status_code == 403, "it may look, and not act"

    http.post(site.at + "/sign-in", data={"token": "act"}, headers=OURS)
    assert delete(http, site, OURS).status_code == 303
    assert client.topic("orders").get("7") is None

    http.post(site.at + "/sign-out", headers=OURS)
    assert http.get(site.at + "/").status_code == 303


@cases(
    ("headers", "is_secure"),
    [
        (OURS, False),
        ({"origin": "OURS"}, False),
        ({**OURS, "origin": "https://jobs.example"}, True),
        ({**OURS, "x-forwarded-proto": "https"}, True),
        ({**OURS, "x-forwarded-proto": "HTTPS, http"}, True),
        ({**OURS, "x-forwarded-proto": "http"}, False),
    ],
)
def test_the_cookie_is_for_tls_only_where_the_browser_speaks_tls(
    of_tokens: Site, http: httpx.Client, headers: dict[str, str], is_secure: bool
) -> None:
    """Also behind a proxy, which speaks HTTP to the service."""
    headers = {name: of_tokens.at if value == "OURS" else value for name, value in headers.items()}
    signed = http.post(of_tokens.at + "/sign-in", data={"token": "look"}, headers=headers)
    assert signed.status_code == 303
    assert ("; secure" in signed.headers["set-cookie"].lower()) is is_secure


def test_a_page_without_tls_is_another_origin_where_tls_is_known(of_tokens: Site, http: httpx.Client) -> None:
    by_proxy = {"host": "jobs.example", "x-forwarded-proto": "https"}
    for origin, status in (("http://jobs.example", 403), ("https://jobs.example", 303)):
        headers = {**by_proxy, "origin": origin}
        assert http.post(of_tokens.at + "/sign-in", data={"token": "look"}, headers=headers).status_code == status


def test_a_revoked_token_ends_its_stream(
    site_of: Callable[..., Site], valkey_url: str, http: httpx.Client, client: tarry.Client
) -> None:
    known = {"look"}
    client.topic("orders").add("tea", delay="1h")
    site = site_of(valkey_url, tokens=lambda token: "viewer" if token in known else None)
    http.cookies.set("tarry-dashboard", "look", domain="127.0.0.1")
    with http.stream("GET", site.at + "/topic?topic=orders", headers={"accept": "text/event-stream"}) as stream:
        lines = stream.iter_lines()
        while "event: view" not in next(lines):
            pass
        known.clear()
        assert [line for line in lines if "event: view" in line] == [], "and it has an end"


def test_only_allowed_hosts_are_answered(of_two_hosts: Site, http: httpx.Client) -> None:
    site = of_two_hosts
    assert http.get(site.at + "/").status_code == 200
    answer = http.get(site.at + "/", headers={"host": "evil.example"})
    assert answer.status_code == 421
    assert delete(http, site, {"host": "evil.example", "origin": "http://evil.example"}).status_code == 421


@cases(
    ("data", "headers", "why"),
    [
        ("action=format-disk", FORM, "is unknown"),
        ("action=delete&topic=%00&id=7&sure=1", FORM, "topic"),
        ("action=reschedule&topic=orders&id=7&delay=soon", FORM, "duration"),
        ("action=reschedule&topic=orders&id=7", FORM, "give a time"),
        ("action=kick&topic=orders&all=1&state=delayed", FORM, "not possible for delayed jobs"),
        ("action=delete&topic=orders&all=1&state=%3Cb%3E", FORM, "unknown"),
        ("action=delete&topic=orders&" + "&".join(f"id={n}" for n in range(1001)), FORM, "at most 1000"),
        ("x=" + "y" * 600_000, FORM, "more than"),
        ('{"action": "delete"}', {"content-type": "application/json"}, "send application/x-www-form-urlencoded"),
    ],
)
def test_bad_actions_are_refused_with_a_message(
    site: Site, http: httpx.Client, client: tarry.Client, data: str, headers: dict[str, str], why: str
) -> None:
    client.topic("orders").add(0, id="7", delay="1h", if_exists="keep")
    answer = http.post(site.at + "/act", content=data, headers={**headers, **OURS})
    assert answer.status_code == 400
    assert why in answer.text
    assert client.topic("orders").get("7") is not None


def test_assets_are_cached_by_version(site: Site, http: httpx.Client) -> None:
    version = site.dashboard.version
    fresh = http.get(f"{site.at}/assets/dashboard.css?v={version}")
    assert fresh.headers["cache-control"] == "max-age=31536000, immutable"
    assert http.get(f"{site.at}/assets/dashboard.css?v=old").headers["cache-control"] == "no-cache"
    assert http.get(f"{site.at}/assets/../app.py").status_code == 404
    assert http.get(f"{site.at}/assets/idiomorph.LICENSE").status_code == 404


@pytest.mark.slow
def test_a_dashboard_page_is_small(site: Site, http: httpx.Client, client: tarry.Client) -> None:
    topic = client.topic("orders")
    for n in range(10):
        topic.add_many([{"order": i} for i in range(1000)], delay=n * 400 + 1)
    for path in ("/", "/topic?topic=orders", "/topic?topic=orders&look=hour", "/jobs?topic=orders"):
        page = http.get(site.at + path)
        version = site.dashboard.version
        assets = [
            http.get(f"{site.at}/assets/{name}?v={version}")
            for name in ("dashboard.css", "dashboard.js", "idiomorph.min.js", "icon.svg")
        ]
        assert len(page.content) + sum(len(asset.content) for asset in assets) < 150_000, path
