"""The dialects: what clients of other systems say and are answered, route by route, good and bad words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import tarry
from service.served import Served, serve
from tarry.clients.testing import START_US, Clock, TestAsyncClient
from tarry.programs.service.dialects import delay_queue
from tarry.programs.service.settings import Dialects, Settings
from tarry.verbs import tokens

START_MS, START_S = START_US // 1000, START_US // 1_000_000
Speaks = Callable[..., httpx.Response]


@pytest.fixture
def spoken(valkey_url: str, clock: Clock, namespace: str) -> Iterator[Served]:
    """A service by an imaginary clock; the dialects keep their jobs in namespaces of this test."""
    dialects = Dialects(f"{namespace}-a", f"{namespace}-b", f"Delay{namespace}")
    settings = Settings(namespaces=(namespace,), dialects=dialects)
    with serve(lambda name: TestAsyncClient(valkey_url, clock, namespace=name), settings) as running:
        yield running


@pytest.fixture
def say(spoken: Served) -> Iterator[Speaks]:
    with httpx.Client(base_url=spoken.url, timeout=20) as http:
        yield http.request


def client_of(spoken: Served, dialect: str) -> Any:
    return spoken.door.clients[getattr(spoken.door.settings.dialects, dialect)]


# ── article 001 ──────────────────────────────────────────────────────────────────────────────────────────────────────

TEA = {"id": 3, "topic": "test", "delayTime": 10000, "ttrTime": 30000, "message": "tag:testid:3"}
WAYS: dict[str, Any] = {"query": {"params": TEA}, "form": {"data": TEA}, "json": {"json": TEA}}


@pytest.mark.parametrize("way", WAYS)
def test_001_a_job_lives_as_in_the_article(say: Speaks, clock: Clock, way: str) -> None:
    added = say("POST", "/delay/add", **WAYS[way])
    assert (added.status_code, added.json()) == (200, {"delayDate": START_MS + 10_000, "jodId": 3, "topic": "test"})
    assert list(added.json()) == ["delayDate", "jodId", "topic"], "the order that the article's log shows"
    assert say("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    clock.advance(11)
    job = {**TEA, "retryCount": 0, "status": "RESERVED"}
    assert say("GET", "/delay/pop", params={"topic": "test"}).json() == job
    assert say("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    clock.advance(30)
    assert say("GET", "/delay/pop", params={"topic": "test"}).json() == {**job, "retryCount": 1}
    done = say("DELETE", "/delay/finish", params={"jobId": 3})
    assert (done.status_code, done.text) == (200, "success")
    clock.advance(60)
    assert say("GET", "/delay/pop", params={"topic": "test"}).text == "null"


def test_001_what_is_deleted_never_comes(say: Speaks, clock: Clock) -> None:
    say("POST", "/delay/add", params=TEA)
    assert say("DELETE", "/delay/delete", params={"jobId": 3}).text == "success"
    assert say("DELETE", "/delay/delete", params={"jobId": 3}).text == "success", "gone is gone"
    clock.advance("1h")
    assert say("GET", "/delay/pop", params={"topic": "test"}).text == "null"


def test_001_one_pool_of_ids_for_all_topics(say: Speaks, clock: Clock) -> None:
    say("POST", "/delay/add", params=TEA)
    say("POST", "/delay/add", params={**TEA, "topic": "other", "message": "second"})
    clock.advance(11)
    assert say("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    assert say("GET", "/delay/pop", params={"topic": "other"}).json()["message"] == "second"


def test_001_a_late_finish_ends_the_run_of_another(say: Speaks, clock: Clock, spoken: Served) -> None:
    """It shows no receipt: this is what the page on dialects warns of."""
    say("POST", "/delay/add", params=TEA)
    clock.advance(11)
    say("GET", "/delay/pop", params={"topic": "test"})
    clock.advance(31)
    assert say("GET", "/delay/pop", params={"topic": "test"}).json()["retryCount"] == 1
    say("DELETE", "/delay/finish", params={"jobId": 3})
    assert spoken.run(client_of(spoken, "delay_controller").topic("test").get("3")) is None


def test_001_defaults_and_words_of_any_kind(say: Speaks, clock: Clock) -> None:
    say("POST", "/delay/add", params={"id": -5, "topic": "测试"})
    job = say("GET", "/delay/pop", params={"topic": "测试"}).json()
    assert job == {
        "delayTime": 0, "id": -5, "message": None, "retryCount": 0, "status": "RESERVED", "topic": "测试", "ttrTime": 60000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("POST", "/delay/add", {"topic": "t"}),
        ("POST", "/delay/add", {"id": "x", "topic": "t"}),
        ("POST", "/delay/add", {"id": 2**63, "topic": "t"}),
        ("POST", "/delay/add", {"id": 1}),
        ("POST", "/delay/add", {"id": 1, "topic": ""}),
        ("POST", "/delay/add", {"id": 1, "topic": "t", "delayTime": -1}),
        ("POST", "/delay/add", {"id": 1, "topic": "t", "delayTime": "soon"}),
        ("POST", "/delay/add", {"id": 1, "topic": "t", "delayTime": 2**62}),
        ("GET", "/delay/pop", {}),
        ("GET", "/delay/pop", {"topic": "{}"}),
        ("DELETE", "/delay/finish", {}),
        ("DELETE", "/delay/delete", {"jobId": "x"}),
    ],
)
def test_001_bad_words(say: Speaks, spoken: Served, method: str, path: str, params: Any) -> None:
    answer = say(method, path, params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert spoken.run(client_of(spoken, "delay_controller").topics()) == []


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('{"message": 5}', "5"),
        ('{"message": 1.50 }', "1.50"),
        ('{"message": true}', "true"),
        ('{"message": null, "delayTime": null, "ttrTime": null}', None),
        ('{"message": "5", "delayTime": "0", "unknown": [1]}', "5"),
    ],
)
def test_001_json_is_read_as_jackson_reads_it(say: Speaks, said: str, message: str | None) -> None:
    answer = say("POST", "/delay/add?topic=t&id=9", content=said.encode(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["jodId"]) == (200, 9)
    job = say("GET", "/delay/pop", params={"topic": "t"}).json()
    assert (job["message"], job["delayTime"], job["ttrTime"]) == (message, 0, 60_000)


@pytest.mark.parametrize(
    "said", ['{"message": {"a": 1}}', '{"message": [1]}', '{"delayTime": "x"}', "", "[]", '{"topic']
)
def test_001_json_that_jackson_refuses(say: Speaks, spoken: Served, said: str) -> None:
    answer = say("POST", "/delay/add?id=9", content=said.encode(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert spoken.run(client_of(spoken, "delay_controller").topics()) == []


@pytest.mark.parametrize("name", ["delayTime", "ttrTime"])
def test_001_what_is_too_long_is_said_by_its_name(say: Speaks, name: str) -> None:
    for ms in (9 * 10**15, 2**62):
        detail = say("POST", "/delay/add", params={"id": 1, "topic": "t", name: ms}).json()["detail"]
        assert re.fullmatch(f"{name}: [0-9a-z ]+ reach(es)? beyond the year 9999[.]", detail)


def test_001_a_form_of_many_parts_is_a_form(say: Speaks) -> None:
    """As ``curl -F`` and browsers send it."""
    fields = {"id": "9", "topic": "測試", "message": 'tag "9"\r\nand more', "delayTime": "0"}
    answer = say("POST", "/delay/add", files={name: (None, text) for name, text in fields.items()})
    assert (answer.status_code, answer.json()["jodId"]) == (200, 9)
    job = say("GET", "/delay/pop", params={"topic": "測試"}).json()
    assert (job["id"], job["message"]) == (9, fields["message"])


@pytest.mark.parametrize(
    "sent",
    [
        {"files": {"id": ("id.txt", b"9"), "topic": (None, "t")}},
        {"files": {"id": (None, b"\xff"), "topic": (None, "t")}},
        {"content": b"--x\r\n\r\nid", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"id=9&topic=t", "headers": {"content-type": "multipart/form-data"}},
        {"content": b"--x\r\n" * 5000, "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"id=\xff&topic=t", "headers": {"content-type": "application/x-www-form-urlencoded"}},
    ],
)
def test_001_a_form_that_cannot_be_read_is_refused(say: Speaks, spoken: Served, sent: Any) -> None:
    answer = say("POST", "/delay/add", **sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert spoken.run(client_of(spoken, "delay_controller").topics()) == []


@pytest.mark.parametrize(
    "id",
    [
        "²",
        "007",
        "٣",
        "-0",
        "+1",
        "1_0",
        f"{2**63}",
        f"{-(2**63) - 1}",
        "9" * 200,
        "order",
        7,
        0,
        -5,
        2**63 - 1,
        -(2**63),
    ],
)
def test_001_an_id_is_a_number_only_as_a_number_is_written(say: Speaks, spoken: Served, id: str | int) -> None:
    """Jobs of another origin may have any id; a number would be asked for under another one."""
    spoken.run(client_of(spoken, "delay_controller").topic("t").add("tea", id=str(id)))
    assert say("GET", "/delay/pop", params={"topic": "t"}).json()["id"] == id


def test_001_other_methods_and_bodies(say: Speaks) -> None:
    assert say("GET", "/delay/finish", params={"jobId": 1}).status_code == 405
    assert say("HEAD", "/delay/pop", params={"topic": "t"}).status_code == 405, "it would take a job"
    assert say("POST", "/delay/add", content=b"x", headers={"content-type": "text/csv"}).status_code == 415


# ── Youzan's design in Go ────────────────────────────────────────────────────────────────────────────────────────────

PUSH = {"topic": "order", "id": "15702398321", "delay": 3600, "ttr": 120, "body": '{"uid": 10829378}'}


@pytest.fixture
def go(say: Speaks) -> Callable[[str, Any], Any]:
    """JSON in, always 200, ``code``, ``message``, ``data`` out."""

    def ask(path: str, said: Any) -> Any:
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        answer = say("POST", path, content=content)
        assert answer.status_code == 200
        found = answer.json()
        assert list(found) == ["code", "message", "data"]
        return found

    return ask


def test_go_a_job_lives_as_in_its_readme(go: Any, clock: Clock) -> None:
    assert go("/push", PUSH) == {"code": 0, "message": "添加成功", "data": None}
    kept = {**PUSH, "delay": START_S + 3600}
    assert go("/get", {"id": "15702398321"})["data"] == kept, "delay is an absolute second"
    clock.advance("1h")
    taken = go("/pop", {"topic": "order"})
    assert taken == {"code": 0, "message": "操作成功", "data": {"id": "15702398321", "body": '{"uid": 10829378}'}}
    assert go("/get", {"id": "15702398321"})["data"] == kept, "also in somebody's hands"
    assert go("/finish", {"id": "15702398321"}) == {"code": 0, "message": "操作成功", "data": None}
    assert go("/get", {"id": "15702398321"}) == {"code": 0, "message": "操作成功", "data": None}


def test_go_pop_holds_for_178_seconds_and_comes_back_after_the_ttr(go: Any, clock: Clock) -> None:
    go("/push", {**PUSH, "delay": 170, "ttr": 100})
    assert go("/pop", {"topic": "nothing, order ,"})["data"]["id"] == "15702398321"
    assert go("/pop", {"topic": "order"})["data"]["id"] == "15702398321", "nobody finished it in 100 s"
    go("/delete", {"id": "15702398321"})
    before = clock.lived_us
    assert go("/pop", {"topic": "order"}) == {"code": 0, "message": "操作成功", "data": None}
    assert clock.lived_us - before == 178_000_000


def test_go_a_push_of_a_known_id_replaces_it_in_whatever_topic(go: Any, clock: Clock, spoken: Served) -> None:
    go("/push", PUSH)
    go("/push", {**PUSH, "topic": "another", "delay": 5, "body": "new"})
    client = client_of(spoken, "delay_queue")
    assert spoken.run(client.topic("order").get("15702398321")) is None
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
def test_go_bad_words(go: Any, spoken: Served, path: str, said: Any, message: str | None) -> None:
    found = go(path, said)
    assert (found["code"], found["data"]) == (1, None)
    assert message is None or found["message"] == message
    assert spoken.run(client_of(spoken, "delay_queue").topics()) == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_go_any_method_will_do_as_in_the_original(say: Speaks, method: str) -> None:
    assert say(method, "/push?what=ever", content=json.dumps(PUSH)).json() == {
        "code": 0,
        "message": "添加成功",
        "data": None,
    }
    assert say(method, "/get", content=b'{"id": "15702398321"}').json()["data"]["topic"] == "order"


def test_go_whoever_refuses_says_it_with_200(say: Speaks, spoken: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**more: Any) -> tuple[Any, str, Any]:
        answer = say("POST", "/push", **({"content": json.dumps(PUSH)} | more))
        found = answer.json()
        assert (answer.status_code, found["code"], found["data"]) == (200, 1, None)
        assert answer.headers["content-type"] == "application/json"
        return answer.headers.get("retry-after"), found["message"], answer.headers.get("connection")

    assert "another origin" in refused(headers={"origin": "https://elsewhere.example"})[1]
    assert "bytes" in refused(content=b"x" * (9 << 20))[1]
    with monkeypatch.context() as patch:
        patch.setattr(delay_queue, "_read", None)
        assert refused()[1].startswith("The service failed")
    client, bearers = client_of(spoken, "delay_queue"), list[Any]()
    for scope in ("consume", "produce"):
        text, id, record = tokens.make(os.urandom, (scope,), calls=0.01)
        spoken.run(client.engine.run(tokens.keep(client.namespace, id, record)))
        bearers.append({"headers": {"authorization": f"Bearer {text}"}})
    spoken.call(spoken.door.ask_for_tokens, True)
    assert "A token is needed" in refused()[1]
    assert "no token of tarry" in refused(headers={"authorization": "Bearer tea"})[1]
    assert "this needs produce or admin" in refused(**bearers[0])[1]
    assert say("POST", "/push", content=json.dumps(PUSH), **bearers[1]).json()["code"] == 0
    wait, said, _ = refused(**bearers[1])
    assert "calls a second are used up" in said
    assert int(wait) > 1
    spoken.call(spoken.door.drain)
    wait, said, connection = refused()
    assert (wait, connection) == ("1", "close")
    assert "about to end" in said


@pytest.mark.parametrize(("delay", "ttr"), [(1, 1), (2**31, 86400)])
def test_go_the_limits_are_within(go: Any, delay: int, ttr: int) -> None:
    assert go("/push", {**PUSH, "delay": delay, "ttr": ttr})["code"] == 0


# ── article 004 ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "form", "parts"])
def test_004_a_message_moves_to_the_blocking_queue(
    say: Speaks, spoken: Served, clock: Clock, valkey_url: str, method: str
) -> None:
    name = spoken.door.settings.dialects.delayed_message
    assert name is not None
    client = spoken.door.clients[spoken.door.settings.namespaces[0]]
    for value, delay in (("AAAA", 20), ("BBBB", 5)):
        fields = {"delay": str(delay), "value": value}
        forms: dict[str, Any] = {
            "form": {"data": fields},
            "parts": {"files": {name: (None, text) for name, text in fields.items()}},
        }
        way = forms.get(method, {"params": fields})
        answer = say("POST" if method in forms else method, "/delayed/message", **way)
        assert (answer.status_code, answer.text) == (200, "")
    import redis

    with redis.Redis.from_url(valkey_url) as server:
        order = server.lrange(f"redisson_delay_queue:{{{name}}}", 0, -1)
    assert [element[-6:] for element in order] == [b"\x04>\x04AAAA"[1:], b"\x04>\x04BBBB"[1:]], (
        "as the article's log has it"
    )
    queue = client.blocking_queue(name, codec="river")
    clock.advance(6)
    assert spoken.run(queue.poll()) == "BBBB"
    clock.advance(15)
    assert spoken.run(queue.poll()) == "AAAA"


@pytest.mark.parametrize(
    "params", [{}, {"delay": 5}, {"value": "x"}, {"delay": -1, "value": "x"}, {"delay": "x", "value": "x"}]
)
def test_004_bad_words(say: Speaks, params: Any) -> None:
    assert say("GET", "/delayed/message", params=params).status_code == 400


def test_004_other_bodies_and_what_spring_answers_itself(say: Speaks) -> None:
    assert say("POST", "/delayed/message", json={"delay": 5, "value": "x"}).status_code == 415
    assert say("POST", "/delayed/message", data={"delay": "5"}).status_code == 400
    asked = say("OPTIONS", "/delayed/message", params={"delay": 5, "value": "x"})
    assert (asked.status_code, asked.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH, POST, PUT")


def test_dialects_need_not_be_spoken(valkey_url: str) -> None:
    from tarry.programs.service.settings import NO_DIALECTS

    settings = Settings(dialects=NO_DIALECTS)
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name), settings) as quiet:
        for method, path in (("POST", "/push"), ("POST", "/delay/add"), ("GET", "/delayed/message")):
            assert httpx.request(method, quiet.url + path).status_code == 404
