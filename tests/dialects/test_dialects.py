"""The dialects: requests and answers of other systems' clients, route by route, valid and invalid."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from typing import Any

import httpx
import pytest

import tarry
from dialects.dialect_clients import START_MS, Speaks, client_of, dialects_of
from service.running_service import RunningService, serve
from service.test_damaged_jobs import no_headers
from tarry.clients.testing import Clock
from tarry.core.requests import Command
from tarry.programs.cli.composition import SQS, Composition
from tarry.programs.cli.composition import dialects_of as places_of
from tarry.programs.dialects.mounts import ALL_DIALECTS, DIALECTS, Dialects
from tarry.verbs import tokens

# ── Youzan's delay queue in Spring Boot ──────────────────────────────────────────────────────────────────────────────

TEA = {"id": 3, "topic": "test", "delayTime": 10000, "ttrTime": 30000, "message": "tag:testid:3"}
WAYS: dict[str, Any] = {"query": {"params": TEA}, "form": {"data": TEA}, "json": {"json": TEA}}


@pytest.mark.parametrize("way", WAYS)
def test_delay_controller_a_job_goes_through_the_original_example(send: Speaks, clock: Clock, way: str) -> None:
    added = send("POST", "/delay/add", **WAYS[way])
    assert (added.status_code, added.json()) == (200, {"delayDate": START_MS + 10_000, "jodId": 3, "topic": "test"})
    assert list(added.json()) == ["delayDate", "jodId", "topic"], "the order that the original's log shows"
    assert send("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    clock.advance(11)
    job = {**TEA, "retryCount": 0, "status": "RESERVED"}
    assert send("GET", "/delay/pop", params={"topic": "test"}).json() == job
    assert send("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    clock.advance(30)
    assert send("GET", "/delay/pop", params={"topic": "test"}).json() == {**job, "retryCount": 1}
    done = send("DELETE", "/delay/finish", params={"jobId": 3})
    assert (done.status_code, done.text) == (200, "success")
    clock.advance(60)
    assert send("GET", "/delay/pop", params={"topic": "test"}).text == "null"


@pytest.mark.parametrize(
    "media", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
)
def test_delay_controller_another_charset_than_utf_8_is_refused(send: Speaks, media: str) -> None:
    kind = {"content-type": f"{media}; charset=latin-1"}
    answer = send("POST", "/delay/add", content=b"{}", headers=kind)
    assert answer.status_code == 400
    assert "its charset is 'latin-1'; send UTF-8" in answer.text
    part = b'--b\r\nContent-Disposition: form-data; name="message"\r\nContent-Type: text/plain; charset=latin-1\r\n\r\n\xfc\r\n--b--'
    answer = send("POST", "/delay/add", content=part, headers={"content-type": "multipart/form-data; boundary=b"})
    assert "the charset of 'message' is 'latin-1'; send UTF-8" in answer.text


def test_delay_controller_a_form_that_is_slow_to_parse_is_refused(send: Speaks) -> None:
    """A parser of headers takes the square of their length; nothing looks for a form inside of a field."""
    kind = {"content-type": "multipart/form-data; boundary=b"}
    name = b'--b\r\nContent-Disposition: form-data; name="' + b";" * 60_000 + b"\r\n\r\nx\r\n--b--"
    assert (
        "the headers of a part have no end, or more than 1000"
        in send("POST", "/delay/add", content=name, headers=kind).text
    )
    long = {"content-type": "multipart/form-data; boundary=b" + ";a=b" * 300 + "; charset=utf-8"}
    assert "content-type: it has 1246 bytes" in send("POST", "/delay/add", content=b"--b--", headers=long).text
    parts = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' * 1000 + b"--b--"
    assert "more than 100 fields" in send("POST", "/delay/add", content=parts, headers=kind).text


def test_delay_controller_a_field_is_text_whatever_is_in_it(send: Speaks) -> None:
    """Also a form: each line of one in another would be compared with the boundaries of all."""
    inner = "".join(f"--b{n}\r\nContent-Type: multipart/mixed; boundary=b{n + 1}\r\n\r\n" for n in range(1, 90))
    fields = {"id": "9", "topic": "t"}
    files: dict[str, Any] = {name: (None, text) for name, text in fields.items()}
    files["message"] = (None, inner, "multipart/mixed; boundary=b1")
    assert send("POST", "/delay/add", files=files).status_code == 200
    assert send("GET", "/delay/pop", params={"topic": "t"}).json()["message"] == inner
    coded = (
        b'--b\r\nContent-Disposition: form-data; name="id"\r\nContent-Transfer-Encoding: base64\r\n\r\nOQ==\r\n--b--'
    )
    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert "'id' is coded as 'base64'; send it as it is" in send("POST", "/delay/add", content=coded, headers=kind).text


def test_delay_controller_a_body_that_is_nested_too_deeply_is_text(
    send: Speaks, dialect_service: RunningService
) -> None:
    """It was added otherwise, and is handed out all the same."""
    deep = b"[" * 9999 + b"]" * 9999
    added = {"body_base64": b64encode(deep).decode(), "coded": True}
    namespace = client_of(dialect_service, "delay_controller").namespace
    assert send("POST", "/v1/topics/t/jobs", params={"namespace": namespace}, json=added).status_code == 201
    assert send("GET", "/delay/pop", params={"topic": "t"}).json()["message"] == deep.decode()


def test_delay_controller_a_pop_counts_as_a_job_of_its_token(send: Speaks, dialect_service: RunningService) -> None:
    client = client_of(dialect_service, "delay_controller")
    text, id, record = tokens.create_token(os.urandom, ("consume",), jobs=0.01)
    dialect_service.run(client.engine.run(tokens.store_token(client.namespace, id, record)))
    dialect_service.call(dialect_service.app.require_tokens, True)
    given: dict[str, Any] = {"params": {"topic": "t"}, "headers": {"authorization": f"Bearer {text}"}}
    assert send("GET", "/delay/pop", **given).text == "null"
    assert "jobs a second are used up" in send("GET", "/delay/pop", **given).json()["detail"]


def test_delay_controller_a_deleted_job_is_never_handed_out(send: Speaks, clock: Clock) -> None:
    send("POST", "/delay/add", params=TEA)
    assert send("DELETE", "/delay/delete", params={"jobId": 3}).text == "success"
    assert send("DELETE", "/delay/delete", params={"jobId": 3}).text == "success", "gone is gone"
    clock.advance("1h")
    assert send("GET", "/delay/pop", params={"topic": "test"}).text == "null"


def test_delay_controller_ids_are_shared_by_all_topics(send: Speaks, clock: Clock) -> None:
    send("POST", "/delay/add", params=TEA)
    send("POST", "/delay/add", params={**TEA, "topic": "other", "message": "second"})
    clock.advance(11)
    assert send("GET", "/delay/pop", params={"topic": "test"}).text == "null"
    assert send("GET", "/delay/pop", params={"topic": "other"}).json()["message"] == "second"


def test_delay_controller_a_late_finish_ends_another_reservation(
    send: Speaks, clock: Clock, dialect_service: RunningService
) -> None:
    """It shows no receipt: this is what the page on dialects warns of."""
    send("POST", "/delay/add", params=TEA)
    clock.advance(11)
    send("GET", "/delay/pop", params={"topic": "test"})
    clock.advance(31)
    assert send("GET", "/delay/pop", params={"topic": "test"}).json()["retryCount"] == 1
    send("DELETE", "/delay/finish", params={"jobId": 3})
    assert dialect_service.run(client_of(dialect_service, "delay_controller").topic("test").get("3")) is None


def test_delay_controller_defaults_and_unicode_topics_work(send: Speaks, clock: Clock) -> None:
    send("POST", "/delay/add", params={"id": -5, "topic": "测试"})
    job = send("GET", "/delay/pop", params={"topic": "测试"}).json()
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
def test_delay_controller_bad_requests_are_refused(
    send: Speaks, dialect_service: RunningService, method: str, path: str, params: Any
) -> None:
    answer = send(method, path, params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert dialect_service.run(client_of(dialect_service, "delay_controller").topics()) == []


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
def test_delay_controller_json_is_read_as_jackson_reads_it(send: Speaks, said: str, message: str | None) -> None:
    answer = send(
        "POST", "/delay/add?topic=t&id=9", content=said.encode(), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["jodId"]) == (200, 9)
    job = send("GET", "/delay/pop", params={"topic": "t"}).json()
    assert (job["message"], job["delayTime"], job["ttrTime"]) == (message, 0, 60_000)


@pytest.mark.parametrize(
    "said", ['{"message": {"a": 1}}', '{"message": [1]}', '{"delayTime": "x"}', "", "[]", '{"topic']
)
def test_delay_controller_json_that_jackson_refuses_is_refused(
    send: Speaks, dialect_service: RunningService, said: str
) -> None:
    answer = send("POST", "/delay/add?id=9", content=said.encode(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert dialect_service.run(client_of(dialect_service, "delay_controller").topics()) == []


@pytest.mark.parametrize("name", ["delayTime", "ttrTime"])
def test_delay_controller_a_time_that_is_too_long_is_named(send: Speaks, name: str) -> None:
    for ms in (9 * 10**15, 2**62):
        detail = send("POST", "/delay/add", params={"id": 1, "topic": "t", name: ms}).json()["detail"]
        assert re.fullmatch(f"{name}: [0-9a-z ]+ reach(es)? beyond the year 9999[.]", detail)


def test_delay_controller_a_multipart_form_is_accepted(send: Speaks) -> None:
    """As ``curl -F`` and browsers send it."""
    fields = {"id": "9", "topic": "測試", "message": 'tag "9"\r\nand more', "delayTime": "0"}
    answer = send("POST", "/delay/add", files={name: (None, text) for name, text in fields.items()})
    assert (answer.status_code, answer.json()["jodId"]) == (200, 9)
    job = send("GET", "/delay/pop", params={"topic": "測試"}).json()
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
def test_delay_controller_an_unreadable_form_is_refused(
    send: Speaks, dialect_service: RunningService, sent: Any
) -> None:
    answer = send("POST", "/delay/add", **sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert dialect_service.run(client_of(dialect_service, "delay_controller").topics()) == []


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
def test_delay_controller_only_canonical_numbers_are_returned_as_numbers(
    send: Speaks, dialect_service: RunningService, id: str | int
) -> None:
    """Jobs of another origin may have any id; a number would be asked for under another one."""
    dialect_service.run(client_of(dialect_service, "delay_controller").topic("t").add("tea", id=str(id)))
    assert send("GET", "/delay/pop", params={"topic": "t"}).json()["id"] == id


def test_delay_controller_other_methods_and_media_types_are_refused(send: Speaks) -> None:
    assert send("GET", "/delay/finish", params={"jobId": 1}).status_code == 405
    assert send("HEAD", "/delay/pop", params={"topic": "t"}).status_code == 405, "it would take a job"
    assert send("POST", "/delay/add", content=b"x", headers={"content-type": "text/csv"}).status_code == 415


# ── a Spring Boot controller on Redisson ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "form", "parts"])
def test_delayed_message_a_message_moves_to_the_blocking_queue(
    send: Speaks, dialect_service: RunningService, clock: Clock, valkey_url: str, method: str
) -> None:
    name = dialects_of(dialect_service.app.settings.namespaces[0]).delayed_message
    assert name is not None
    assert name is not None
    client = dialect_service.app.clients[dialect_service.app.settings.namespaces[0]]
    for value, delay in (("AAAA", 20), ("BBBB", 5)):
        fields = {"delay": str(delay), "value": value}
        forms: dict[str, Any] = {
            "form": {"data": fields},
            "parts": {"files": {name: (None, text) for name, text in fields.items()}},
        }
        way = forms.get(method, {"params": fields})
        answer = send("POST" if method in forms else method, "/delayed/message", **way)
        assert (answer.status_code, answer.text) == (200, "")
    import redis

    with redis.Redis.from_url(valkey_url) as server:
        order = server.lrange(f"redisson_delay_queue:{{{name}}}", 0, -1)
    assert [element[-6:] for element in order] == [b"\x04>\x04AAAA"[1:], b"\x04>\x04BBBB"[1:]], (
        "as the original's log has it"
    )
    queue = client.blocking_queue(name)
    clock.advance(6)
    assert dialect_service.run(queue.poll()) == "BBBB"
    clock.advance(15)
    assert dialect_service.run(queue.poll()) == "AAAA"


@pytest.mark.parametrize(
    "params", [{}, {"delay": 5}, {"value": "x"}, {"delay": -1, "value": "x"}, {"delay": "x", "value": "x"}]
)
def test_delayed_message_bad_requests_are_refused(send: Speaks, params: Any) -> None:
    assert send("GET", "/delayed/message", params=params).status_code == 400


@pytest.mark.parametrize(
    ("version", "element"),
    [(None, None), ("3.8.1", b'"AAAA"'), ("3.16.8", b"\x04>\x04AAAA"), ("4.7.0", b"\x03AAA\xc1")],
)
def test_delayed_message_an_offer_is_in_the_codec_and_format_of_the_version(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, version: str | None, element: bytes | None
) -> None:
    monkeypatch.delenv("TARRY_REDISSON")
    import redis

    queue = f"Delay{namespace}"
    mounts = Dialects(delayed_message=queue).mounts("default")

    def opened(name: str) -> tarry.AsyncClient:
        return tarry.AsyncClient(valkey_url, namespace=name, redisson=version)

    with serve(opened, mounts=mounts) as running:
        answer = httpx.get(running.url + "/delayed/message", params={"delay": 3600, "value": "AAAA"})
    with redis.Redis.from_url(valkey_url) as server:
        offered = server.lrange(f"redisson_delay_queue:{{{queue}}}", 0, -1)
    if element is None:
        assert (answer.status_code, answer.json()["code"], offered) == (400, "bad_input", [])
        assert "dLc0" in answer.json()["detail"]
    else:
        head = 17 if version == "4.7.0" else 16
        assert (answer.status_code, [packed[head:] for packed in offered]) == (200, [element])


def test_delayed_message_refuses_a_queue_of_tarrys_own() -> None:
    with pytest.raises(tarry.BadInput, match="belongs to something else"):
        Dialects(delayed_message="tarry:x").mounts("default")


def test_delayed_message_other_media_types_and_options_requests_are_refused(send: Speaks) -> None:
    assert send("POST", "/delayed/message", json={"delay": 5, "value": "x"}).status_code == 415
    assert send("POST", "/delayed/message", data={"delay": "5"}).status_code == 400
    asked = send("OPTIONS", "/delayed/message", params={"delay": 5, "value": "x"})
    assert (asked.status_code, asked.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH, POST, PUT")


def test_dialects_are_off_unless_they_have_a_place(valkey_url: str) -> None:
    assert Dialects().mounts("default") == ()
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name)) as quiet:
        for method, path in (("POST", "/push"), ("POST", "/delay/add"), ("GET", "/delayed/message")):
            assert httpx.request(method, quiet.url + path).status_code == 404


def test_a_path_of_a_dialect_that_is_off_names_its_option(valkey_url: str) -> None:
    composition = Composition(Dialects(delay_controller="mine"), sqs=False, dashboard=True, beanstalk=None)
    mounts = composition.mounts("default")
    browser = {"accept": "text/html"}
    with serve(lambda name: tarry.AsyncClient(valkey_url, namespace=name), mounts=mounts) as running:
        running.call(running.app.show_pages)

        def asked(method: str, path: str) -> tuple[int, str, str]:
            answer = httpx.request(method, running.url + path, headers=browser)
            problem = answer.json() if "json" in answer.headers["content-type"] else {"code": "", "detail": ""}
            return answer.status_code, problem["code"], problem["detail"].partition("which is off: ")[2]

        for name in ("delay-queue", "delayed-message"):
            for path in DIALECTS[name].paths:
                told = (404, "unknown_route", f"start with --dialect {name}.")
                assert asked("GET", f"{path}?delay=20&value=A") == asked("POST", path) == told
        for path in ("/sqs", "/sqs/", "/sqs/default/orders"):
            assert asked("POST", path) == (404, "unknown_route", "start with --dialect sqs.")
        assert asked("GET", "/delay/add") == (405, "wrong_method", ""), "it is on"
        assert asked("GET", "/push/x") == (404, "", ""), "a page says so to a browser"


def test_the_paths_of_dialects_are_those_of_their_routes() -> None:
    mounts = ALL_DIALECTS.mounts("default")
    for (name, dialect), mount in zip(DIALECTS.items(), mounts, strict=True):
        assert {route.path for table in mount.tables for route in table.routes} == {*dialect.paths}, name
        assert (mount.namespaces or mount.queues) == (dialect.place,)


def test_the_command_lines_dialects_have_places() -> None:
    assert places_of(()) == {}
    assert places_of(["delay-queue", "delayed-message=Orders", SQS]) == {
        "delay-queue": "delay-queue", "delayed-message": "Orders", SQS: "",
    }  # fmt: skip
    for refused, why in (
        ("gearman", "dialect: 'gearman' is unknown; choose from delay-controller, delay-queue, delayed-message, sqs"),
        ("delay_queue", "is unknown"),
        ("delay-queue=a/b", "dialect: 'a/b' contains a '/'"),
        ("delay-queue=", "dialect: "),
        ("delayed-message=", "dialect: "),
        ("sqs=shop", "sqs has no place"),
    ):
        with pytest.raises(tarry.BadInput, match=why):
            places_of([refused])
    with pytest.raises(tarry.BadInput, match="delay-queue is given twice"):
        places_of(["delay-queue=a", "delay-queue=b"])


def test_dialects_create_no_names_of_dots(send: Speaks) -> None:
    for topic, id in (("..", "7"), ("orders", "..")):
        said = {"topic": topic, "id": id, "delay": 1, "ttr": 10, "body": "{}"}
        assert send("POST", "/push", json=said).json()["code"] == 1
    answer = send("POST", "/delay/add", data={"id": 3, "topic": "..", "delayTime": 1, "ttrTime": 9, "message": "tea"})
    assert answer.status_code == 400


def test_dialects_hand_out_jobs_with_damaged_headers(
    dialect_service: RunningService, send: Speaks, clock: Clock
) -> None:
    add = {"id": 3, "topic": "test", "delayTime": 10, "ttrTime": 9000, "message": "tea"}
    assert send("POST", "/delay/add", data=add).status_code == 200
    send("POST", "/push", json={"topic": "order", "id": "7", "delay": 10, "ttr": 120, "body": "{}"})
    dialect_service.run(spoil(client_of(dialect_service, "delay_controller"), "test", "3"))
    dialect_service.run(spoil(client_of(dialect_service, "delay_queue"), "order", "7"))
    clock.advance("1m")
    assert send("GET", "/delay/pop", params={"topic": "test"}).json()["message"] == "tea"
    assert send("POST", "/get", json={"id": "7"}).json()["data"]["body"] == "{}"
    assert send("POST", "/pop", json={"topic": "order"}).json()["data"]["id"] == "7"


async def spoil(client: Any, topic: str, id: str) -> None:
    key = client.topic(topic).verbs.keys.jobs
    value = await client.engine.run(Command((b"HGET", key, id.encode()), bytes))
    await client.engine.run(Command((b"HSET", key, id.encode(), no_headers(value)), int))


@pytest.mark.parametrize("path", ["/delay/pop?topic=t", "/delayed/message?delay=0&value=x"])
def test_a_page_of_another_origin_changes_nothing_by_get(send: Speaks, path: str) -> None:
    """To a name, or to another machine, over plain HTTP a browser sends neither Sec-Fetch-Site nor, with a GET, an Origin."""
    browser = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}
    refused = send("GET", path, headers=browser)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert send("GET", path, headers={**browser, "sec-fetch-site": "cross-site"}).status_code == 403
    assert send("GET", path, headers={**browser, "sec-fetch-site": "none"}).status_code == 200
    assert send("GET", path).status_code == 200, "no browser"
    if "message" in path:
        assert send("HEAD", path, headers=browser).status_code == 403
        assert send("POST", path, headers=browser).status_code == 200, "with an Origin, if a browser sent it"
