"""The page of a job has the names of its steps, and the sizes of their results."""

from __future__ import annotations

import re

import httpx

import tarry
from dashboard.conftest import Site
from until import LONGEST_S


def test_a_job_has_its_steps_with_their_sizes(site: Site, client: tarry.Client) -> None:
    orders = client.topic("orders")
    orders.add("tea", id="7")
    job = orders.pop()
    assert job is not None
    job.step("charge", lambda: "secret")
    job.step("<b>", lambda: "x" * 2000)
    orders.add("tea", id="8")
    with httpx.Client(base_url=site.at, timeout=LONGEST_S) as http:
        text = http.get("/job?topic=orders&id=7").text
        assert "Steps" not in http.get("/job?topic=orders&id=8").text
    section = text[text.index('id="steps"') : text.index('id="body"')]
    assert re.findall(r"<dt.*?>(.*?)</dt><dd>(.*?)</dd>", section) == [("charge", "8 B"), ("&lt;b&gt;", "2 kB")]
    assert "secret" not in text
