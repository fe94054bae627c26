"""A request with ``Tarry-Repeated`` may have been carried out before, its answer lost: clients send the header with each retry."""

from __future__ import annotations

import pytest

from service.job_calls import JOBS, MANY, add, pop
from service.running_service import Api

TOPIC = "/v1/topics/orders"


@pytest.fixture
def again(api: Api) -> Api:
    """The same service, every request a repeated one."""
    api.http.headers["tarry-repeated"] = "1"
    return api


def test_a_repeated_add_is_done_when_the_first_never_arrived(again: Api) -> None:
    assert add(again, id="7")["is_new"]
    assert again.post(MANY + "/add", {"jobs": [{"body": 1}, {"body": 2}]})["jobs"][1]["is_new"]
    assert again.get(TOPIC + "/stats")["ready"] == 3


@pytest.mark.parametrize(
    "path",
    ["/stats", "/histogram", "/throughput", "/jobs?state=ready", "/dead-groups", "/check", "/settings", "/partitions"],
)
def test_a_view_may_be_requested_again(again: Api, path: str) -> None:
    add(again)
    answer = again("GET", TOPIC + path, params=None if "?" in path else {"namespace": again.namespace})
    assert answer.status_code == 200, answer.text


def test_a_repeated_finish_gets_the_answer_of_the_first(api: Api) -> None:
    add(api, id="7")
    receipt = pop(api)["receipt"]
    header = {"tarry-repeated": "1"}
    assert api("POST", f"{JOBS}/7/finish", {"receipt": receipt}, headers=header).status_code == 204
    assert api("POST", f"{JOBS}/7/finish", {"receipt": receipt}, headers=header).status_code == 204
    assert api.refused("POST", f"{JOBS}/7/finish", {"receipt": receipt})[1] == "stale_receipt"


def test_a_repeated_pop_takes_a_job(again: Api) -> None:
    add(again, id="7")
    assert pop(again)["id"] == "7"
    assert again.get(f"{JOBS}/7")["state"] == "reserved"
