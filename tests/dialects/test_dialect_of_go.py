"""Youzan's design in Go, as its clients speak it: JSON in, always 200, ``code``, ``message``, ``data`` out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from dialects.dialect_clients import START_S, Speaks, client_of
from service.running_service import RunningService
from tarry.clients.testing import Clock
from tarry.programs.dialects import delay_queue
from tarry.verbs import tokens

PUSH = {"topic": "order", "id": "15702398321", "delay": 3600, "ttr": 120, "body": '{"uid": 10829378}'}


@pytest.fixture
def go(send: Speaks) -> Callable[[str, Any], Any]:
    """JSON in, always 200, ``code``, ``message``, ``data`` out."""

    def post(path: str, said: Any) -> Any:
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        answer = send("POST", path, content=content)
        assert answer.status_code == 200
        found = answer.json()
        assert list(found) == ["code", "message", "data"]
        return found

    return post


def test_go_a_job_goes_through_the_readmes_example(go: Any, clock: Clock) -> None:
    assert go("/push", PUSH) == {"code": 0, "message": "添加成功", "data": None}
    kept = {**PUSH, "delay": START_S + 3600}
    assert go("/get", {"id": "15702398321"})["data"] == kept, "delay is an absolute second"
    clock.advance("1h")
    taken = go("/pop", {"topic": "order"})
    assert taken == {"code": 0, "message": "操作成功", "data": {"id": "15702398321", "body": '{"uid": 10829378}'}}
    assert go("/get", {"id": "15702398321"})["data"] == kept, "also in somebody's hands"
    assert go("/finish", {"id": "15702398321"}) == {"code": 0, "message": "操作成功", "data": None}
    assert go("/get", {"id": "15702398321"}) == {"code": 0, "message": "操作成功", "data": None}


def test_go_pop_waits_178_seconds_and_a_job_returns_after_its_ttr(go: Any, clock: Clock) -> None:
    go("/push", {**PUSH, "delay": 170, "ttr": 100})
    assert go("/pop", {"topic": "nothing, order ,"})["data"]["id"] == "15702398321"
    assert go("/pop", {"topic": "order"})["data"]["id"] == "15702398321", "nobody finished it in 100 s"
    go("/delete", {"id": "15702398321"})
    before = clock.elapsed_us
    assert go("/pop", {"topic": "order"}) == {"code": 0, "message": "操作成功", "data": None}
    assert clock.elapsed_us - before == 178_000_000


def test_go_pushing_a_known_id_replaces_it_in_any_topic(go: Any, clock: Clock, dialect_service: RunningService) -> None:
    go("/push", PUSH)
    go("/push", {**PUSH, "topic": "another", "delay": 5, "body": "new"})
    client = client_of(dialect_service, "delay_queue")
    assert dialect_service.run(client.topic("order").get("15702398321")) is None
    clock.advance(6)
    assert go("/pop", {"topic": "order,another"})["data"]["body"] == "new"


def test_go_ids_and_topics_are_trimmed_and_names_come_in_any_case(go: Any, clock: Clock) -> None:
    go("/push", {"Topic": "  order ", "ID": " 7 ", "Delay": 1, "TTR": 1, "Body": " tea "})
    clock.advance(2)
    assert go("/pop", {"topic": " order "})["data"] == {"id": "7", "body": "tea"}
    assert go("/delete", {"id": " 7 "})["code"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "said", "message"),
    [
        ("/push", b"", "解析json失败"),
        ("/push", b"[]", "解析json失败"),
        ("/push", {**PUSH, "delay": "5"}, "解析json失败"),
        ("/push", {**PUSH, "delay": 1.5}, "解析json失败"),
        ("/push", {**PUSH, "body": {"a": 1}}, "解析json失败"),
        ("/push", {**PUSH, "id": "  "}, "job id不能为空"),
        ("/push", {**PUSH, "topic": ""}, "topic不能为空"),
        ("/push", {**PUSH, "delay": 0}, "delay 取值范围1 - (2^31 - 1)"),
        ("/push", {**PUSH, "delay": 2**31 + 1}, "delay 取值范围1 - (2^31 - 1)"),
        ("/push", {**PUSH, "ttr": 86401}, "ttr 取值范围1 - 86400"),
        ("/push", {**PUSH, "ttr": None}, "ttr 取值范围1 - 86400"),
        ("/push", {**PUSH, "id": "{7}"}, None),
        ("/pop", {"topic": " , "}, "topic不能为空"),
        ("/pop", {}, "topic不能为空"),
        ("/finish", {}, "job id不能为空"),
        ("/delete", {"id": None}, "job id不能为空"),
        ("/get", {"id": 7}, "解析json失败"),
    ],
)
def test_go_bad_requests_are_refused(
    go: Any, dialect_service: RunningService, path: str, said: Any, message: str | None
) -> None:
    found = go(path, said)
    assert (found["code"], found["data"]) == (1, None)
    assert message is None or found["message"] == message
    assert dialect_service.run(client_of(dialect_service, "delay_queue").topics()) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_go_any_method_is_accepted(send: Speaks, method: str) -> None:
    assert send(method, "/push?what=ever", content=json.dumps(PUSH)).json() == {
        "code": 0,
        "message": "添加成功",
        "data": None,
    }
    assert send(method, "/get", content=b'{"id": "15702398321"}').json()["data"]["topic"] == "order"


def test_go_every_refusal_has_status_200(
    send: Speaks, dialect_service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**more: Any) -> tuple[Any, str, Any]:
        answer = send("POST", "/push", **({"content": json.dumps(PUSH)} | more))
        found = answer.json()
        assert (answer.status_code, found["code"], found["data"]) == (200, 1, None)
        assert answer.headers["content-type"] == "application/json"
        return answer.headers.get("retry-after"), found["message"], answer.headers.get("connection")

    assert "another origin" in refused(headers={"origin": "https://elsewhere.example"})[1]
    assert "bytes" in refused(content=b"x" * (9 << 20))[1]
    with monkeypatch.context() as patch:
        patch.setattr(delay_queue, "_read", None)
        assert refused()[1].startswith("The service failed")
    client, bearers = client_of(dialect_service, "delay_queue"), list[Any]()
    for scope in ("consume", "produce"):
        text, id, record = tokens.create_token(os.urandom, (scope,), calls=0.01)
        dialect_service.run(client.engine.run(tokens.store_token(client.namespace, id, record)))
        bearers.append({"headers": {"authorization": f"Bearer {text}"}})
    dialect_service.call(dialect_service.app.require_tokens, True)
    assert "A token is needed" in refused()[1]
    assert "not a token of tarry" in refused(headers={"authorization": "Bearer tea"})[1]
    assert "this needs produce or admin" in refused(**bearers[0])[1]
    assert send("POST", "/push", content=json.dumps(PUSH), **bearers[1]).json()["code"] == 0
    wait, said, _ = refused(**bearers[1])
    assert "calls a second are used up" in said
    assert int(wait) > 1
    dialect_service.call(dialect_service.app.drain)
    wait, said, connection = refused()
    assert (wait, connection) == ("1", "close")
    assert "about to end" in said


@pytest.mark.parametrize(("delay", "ttr"), [(1, 1), (2**31, 86400)])
def test_go_the_largest_delay_and_ttr_are_accepted(go: Any, delay: int, ttr: int) -> None:
    assert go("/push", {**PUSH, "delay": delay, "ttr": ttr})["code"] == 0


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW"])
def test_a_route_for_any_method_refuses_trace_connect_and_unknown(send: Speaks, method: str) -> None:
    answer = send(method, "/push", json={})
    assert answer.status_code in (400, 405)
    if answer.status_code == 405:
        assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
