"""The audit log: who did what to which job, without secrets and bodies."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import tarry
from dashboard.conftest import Service, Site
from tarry.verbs import tokens
from until import LONGEST_S, until

pytestmark = pytest.mark.slow
OURS = {"sec-fetch-site": "same-origin"}


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [line for line in caplog.records if line.name == "tarry.audit"]


def test_each_executed_action_is_one_line(site: Site, client: tarry.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tarry.audit")
    topic = client.topic("orders")
    topic.add_many([tarry.NewJob(n, id=f"{n}", delay="1h") for n in range(30)])
    with httpx.Client(base_url=site.at, headers=OURS, timeout=LONGEST_S) as http:

        def act(action: str, **fields: Any) -> None:
            assert http.post("/act", data={"action": action, "topic": "orders", **fields}).status_code in (200, 303)

        act("delete", id="7")  # asks
        assert not lines(caplog), "nothing was done"
        act("delete", id="7", sure="1")
        act("delete", id="7", sure="1")  # nothing to do
        act("delete", id=[f"{n}" for n in range(25)], sure="1")
        act("run-now", all="1", state="delayed", sure="1")
        act("add", kind="json", body='"secret body"', headers="secret: header", new="\u202emine")
        act("pause")
    who = "somebody at 127.0.0.1"
    assert [line.getMessage() for line in lines(caplog)] == [
        f"{who}: delete orders/7: 1 job deleted.",
        f"{who}: delete orders/{', '.join(f'{n}' for n in range(20))} and 5 more: 24 jobs deleted.",
        f"{who}: run-now orders/all delayed: 5 jobs made due now.",
        f"{who}: add orders/⟨RIGHT-TO-LEFT OVERRIDE⟩mine: Job ⟨RIGHT-TO-LEFT OVERRIDE⟩mine was added to orders; it is ready.",
        f"{who}: pause orders: orders is paused until it is resumed.",
    ]
    fields = lines(caplog)[1].tarry
    assert (fields["who"], fields["namespace"], fields["topic"]) == (who, client.namespace, "orders")
    assert (fields["ids"], fields["jobs"]) == ([f"{n}" for n in range(20)], 25)
    assert "secret" not in repr([line.tarry for line in lines(caplog)])


def test_an_action_that_fails_is_logged_without_the_text_of_its_form(
    site: Site, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tarry.audit")
    data = {"action": "add", "topic": "orders", "kind": "json", "body": "secret", "new_id": "7"}
    assert httpx.post(site.at + "/act", data=data, headers=OURS).status_code == 400
    [line] = lines(caplog)
    assert line.getMessage().endswith("add orders/7: failed, perhaps partly done: BadInput")
    assert httpx.post(site.at + "/act", data=data).status_code == 403, "of another site"
    assert len(lines(caplog)) == 1


def test_an_application_says_who_its_users_are(
    site_of: Callable[..., Site], valkey_url: str, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tarry.audit")
    site = site_of(valkey_url, allow="admin", who=lambda scope: dict(scope["headers"])[b"x-user"].decode())
    data = {"action": "pause", "topic": "orders", "back": "/"}
    httpx.post(site.at + "/act", data=data, headers={**OURS, "x-user": "ada"})
    assert [line.tarry["who"] for line in lines(caplog)] == ["ada"]


def test_a_service_logs_the_id_of_the_token_and_not_its_secret(
    service: Service, client: tarry.Client, namespace: str
) -> None:
    text, id, record = tokens.create_token(os.urandom, ["admin"])
    client.engine.run(tokens.store_token(namespace, id, record))
    client.topic("orders").add(0, id="7")
    service._words.insert(0, "--json")
    service.start()
    with httpx.Client(base_url=service.at, timeout=LONGEST_S, headers=OURS) as http:
        http.post("/sign-in", data={"token": text})
        http.post("/act", data={"action": "delete", "topic": "orders", "id": "7", "sure": "1", "back": "/"})
    until(lambda: "tarry.audit" in service._log.read_text(), "it is logged")
    [line] = [line for line in service._log.read_text().splitlines() if "tarry.audit" in line]
    fields = json.loads(line)
    assert (fields["who"], fields["action"], fields["topic"], fields["ids"]) == (
        f"token {id}",
        "delete",
        "orders",
        ["7"],
    )
    assert text.removeprefix(f"tarry_{id}_") not in line
