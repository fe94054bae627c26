"""JSON as its schema means it: 7.0 is a whole number, and null in a query is no value."""

from __future__ import annotations

import pytest

from service.job_calls import JOBS, MANY, add, pop
from service.running_service import Api


def test_a_whole_number_may_have_a_decimal_point(api: Api) -> None:
    """And what passes through stays as it is."""
    raw = b'{"jobs": [{"body": {"n": 7.0, "big": 1.50}, "id": "a", "max_attempts": 3.0}, {"body": 1.0}], "delay": 0.0}'
    assert api("POST", MANY + "/add", content=raw).status_code == 200
    assert b'{"n": 7.0, "big": 1.50}' in api("GET", JOBS + "/a").content
    (one, other) = api.post(MANY + "/pop", {"limit": 2.0, "wait": 0.0})["jobs"]
    assert api("POST", f"{JOBS}/a/finish", {"receipt": float(one["receipt"])}).status_code == 204
    assert api("POST", MANY + "/finish", {"jobs": [{"id": other["id"], "receipt": float(other["receipt"])}]})


@pytest.mark.parametrize("limit", [1.5, -1.0, 1e400, "1", True, 2000.0])
def test_other_numbers_are_refused(api: Api, limit: object) -> None:
    text = "1e400" if limit == 1e400 else None
    answer = (
        api("POST", MANY + "/pop", {"limit": limit})
        if text is None
        else api("POST", MANY + "/pop", content=b'{"limit": 1e400}')
    )
    assert answer.status_code == 400
    assert api.refused("POST", MANY + "/pop", {"limit": 2.0, "m": 1}) == (400, "bad_input")


def test_null_in_a_query_is_no_value(api: Api) -> None:
    for name in ("state", "due_after", "limit"):
        assert api("GET", JOBS, params={"namespace": api.namespace, name: "null"}).status_code == 400
    query = {"namespace": api.namespace, "id": "null"}
    answer = api("POST", JOBS, content=b"x", params=query, headers={"content-type": "text/plain"})
    assert answer.json()["id"] == "null"


def test_an_unknown_cursor_is_not_found(api: Api) -> None:
    add(api)
    for cursor in ("", "?", "x y"):
        query = {"namespace": api.namespace, "cursor": cursor}
        assert api.refused("GET", JOBS, params=query) == (400, "bad_input")
    for cursor in ("x", "WzksbnVsbCwiIl0="):
        answer = api("GET", JOBS, params={"namespace": api.namespace, "cursor": cursor})
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_cursor")
    assert pop(api) is not None


@pytest.mark.parametrize("result", [b"1e999", b'"\xff"'])
def test_a_result_that_no_reader_can_read_is_refused(api: Api, result: bytes) -> None:
    """It would be in each later answer that has the job."""
    add(api, id="a")
    held = b'"receipt":%d,"result":%s' % (pop(api)["receipt"], result)
    at = f"{JOBS}/a"
    for path, content in (
        (f"{at}/step", b'{"name":"s",%s}' % held),
        (f"{at}/finish", b"{%s}" % held),
        (f"{MANY}/finish", b'{"jobs":[{"id":"a",%s}]}' % held),
    ):
        answer = api("POST", path, content=content)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
        assert answer.json()["detail"].startswith("result: ")
    assert "steps" not in api("GET", at).json()
