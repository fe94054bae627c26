"""The dashboard of ``tarry serve``: a real process, with and without tokens, drained."""

from __future__ import annotations

import os
import re
import shlex
import signal
from html import unescape
from pathlib import Path

import httpx
import pytest

import tarry
from dashboard.conftest import Service
from tarry.connections.address import find_address
from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.sign_in import token_command
from tarry.verbs import tokens
from until import LONGEST_S
from warm import WarmTarry

pytestmark = pytest.mark.slow

OURS = {"sec-fetch-site": "same-origin"}


def test_a_service_serves_dashboard_and_api(service: Service, client: tarry.Client) -> None:
    client.topic("orders").add(0, id="7", delay="1h")
    service.start()
    with httpx.Client(base_url=service.at, timeout=LONGEST_S) as http:
        assert "orders" in http.get("/").text
        assert http.get("/healthz").status_code == 200
        unknown = http.get("/v1/unknown")
        assert unknown.headers["content-type"].startswith("application/problem+json")
        assert http.get("/", headers={"host": "evil.example"}).status_code == 421
        data = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}
        assert http.post("/act", data=data).status_code == 403
        assert http.post("/act", data=data, headers=OURS).status_code == 303
        assert client.topic("orders").get("7") is None
        with http.stream("GET", "/", headers={"accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            assert any("event: view" in line for line in lines)
            service.process.send_signal(signal.SIGTERM)
            for _ in lines:
                pass  # a stream does not hold up the end
    assert service.process.wait(LONGEST_S) == 0


def test_the_command_of_the_sign_in_page_works_as_it_is_pasted(
    service: Service, client: tarry.Client, namespace: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    _, id, record = tokens.create_token(os.urandom, ["produce"])
    client.engine.run(tokens.store_token(namespace, id, record))
    service.start()
    with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers=OURS) as http:
        pasted = unescape(http.get("/sign-in").text.partition("<pre")[2].partition(">")[2].partition("</pre>")[0])
        program, *words = shlex.split(pasted)
        done = tarry_command.run(words, None, {"TARRY_URL": "", "TARRY_NAMESPACE": ""}, tmp_path)
        assert (program, done.returncode) == ("tarry", 0), done.stderr
        token = re.findall(r"\S{30,}", done.stdout)[0]
        assert http.post("/sign-in", data={"token": token}).headers["location"] == "/"
        assert "role: admin" in http.get("/").text


@pytest.mark.parametrize("url", ["embedded://", "embedded:///var/lib/orders", "redis://orders.example:6380/1"])
def test_the_command_of_the_sign_in_page_names_the_server_of_the_dashboard(url: str) -> None:
    """Also an embedded one, which people know by another name than a URL."""
    dashboard = Dashboard(tarry.AsyncClient(url))
    command = token_command("default", dashboard.template_context(None, "")["server_url"])
    *_, option, named = shlex.split(command)
    found, own = find_address(named, {}), dashboard.client.engine.config.address
    assert (option, found.kind, found.folder, found.url) == ("--url", own.kind, own.folder, own.url)


def test_a_service_with_tokens_requires_one_and_obeys_its_scopes(
    service: Service, client: tarry.Client, namespace: str
) -> None:
    made = {scope: tokens.create_token(os.urandom, [scope]) for scope in ("view", "admin", "produce")}
    for _, id, record in made.values():
        client.engine.run(tokens.store_token(namespace, id, record))
    client.topic("orders").add(0, id="7", delay="1h")
    service.start()
    data = {"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"}

    def signed_in(scope: str) -> tuple[int, int]:
        with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers=OURS) as http:
            assert http.get("/").headers["location"] == "/sign-in"
            http.post("/sign-in", data={"token": made[scope][0]})
            return http.get("/").status_code, http.post("/act", data=data).status_code

    assert signed_in("produce") == (303, 303), "asked to sign in, both times"
    assert client.topic("orders").get("7") is not None
    assert signed_in("view") == (200, 403)
    assert signed_in("admin") == (200, 303)
    assert client.topic("orders").get("7") is None


def test_a_wrong_path_is_a_page_for_browsers_and_a_problem_for_programs(service: Service, namespace: str) -> None:
    service.start("--other-namespace", f"{namespace}-bills")
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with httpx.Client(base_url=service.at, timeout=LONGEST_S) as http:
        for path, home in (
            ("/topics", "/"),
            ("/ns/nowhere/", "/"),
            (f"/ns/{namespace}-bills/x", f"/ns/{namespace}-bills/"),
        ):
            page = http.get(path, headers=browser)
            assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
            assert "Page not found." in page.text
            assert f'<a href="{home}">All topics</a>' in page.text
            assert "content-security-policy" in page.headers
        hostile = http.get("/<script>\u202e", headers=browser)
        assert "Nothing is at /&lt;script&gt;⟨RIGHT-TO-LEFT OVERRIDE⟩" in hostile.text
        for path, headers in (("/topics", {}), ("/v1/unknown", browser), ("/topics", {"accept": "application/json"})):
            problem = http.get(path, headers=headers)
            assert (problem.status_code, problem.json()["code"]) == (404, "unknown_route")
        assert http.post("/topics", headers=browser).json()["code"] == "unknown_route"


def test_a_service_without_the_dashboard_answers_404(service: Service) -> None:
    service.start("--no-dashboard")
    assert httpx.get(service.at + "/", headers={"accept": "text/html"}).json()["code"] == "unknown_route"
