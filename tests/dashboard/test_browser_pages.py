"""The dashboard's pages in a real browser: counts, reasons, bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from dashboard.conftest import Service, Site, expect, serious_faults
from tarry import NewJob
from warm import WarmProcess, WarmTarry

pytestmark = pytest.mark.slow
HIRED = Path(__file__).parent.parent / "worker" / "worker_process.py"


@pytest.fixture
def busy_worker(valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[WarmProcess]:
    """A worker whose handlers never end: its eight slots are busy as long as there is something to do."""
    words = (valkey_url, namespace, str(tmp_path / "diary"), "60", "0.1", "stuck")
    process = tarry_command.start_program(HIRED, *words)
    yield process
    process.kill()
    process.wait()


def numbers(page: Any) -> dict[str, str]:
    """The tiles by their names."""
    names, values = page.locator(".tiles dt").all_inner_texts(), page.locator(".tiles dd").all_inner_texts()
    return {name.removesuffix(" ›"): value for name, value in zip(names, values, strict=True)}


def test_counts_match_the_topics_and_stay_current(
    service: Service, page: Any, client: tarry.Client, busy_worker: WarmProcess
) -> None:
    service.start()
    orders, mail = client.topic("orders"), client.topic("mail")
    orders.add_many(range(20))
    orders.add_many([0, 1, 2], delay="1h")
    mail.add_many([NewJob(n, max_attempts=1) for n in range(3)])
    mail.release_many(mail.pop_many(2), delay=0, reason="ValueError: no address")
    page.goto(service.at)
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    expect(page.locator(".tiles dd.reserved")).to_have_text("8")
    found = numbers(page)
    assert (found["Delayed"], found["Ready"], found["Reserved"], found["Dead"]) == ("3", "13", "8", "2")
    orders.add_many(range(40), delay="2h")
    expect(page.locator(".tiles dd.delayed")).to_have_text("43")
    expect(page.locator(".tiles")).to_contain_text(re.compile("Workers\\s*1"))
    row = page.locator("tr", has_text="mail")
    assert row.locator("td.n").nth(3).inner_text() == "2"

    page.click("th a:text('orders')")
    expect(page.locator(".tiles dd.reserved")).to_have_text("8")
    expect(page.locator("h1")).to_have_text("orders")
    expect(page.get_by_text("of 8, 1 worker")).to_be_visible()
    expect(page.locator(".stretch.day .number")).to_have_text("40")
    page.goto(service.at + "/workers")
    expect(page.locator("h1")).to_have_text("1 worker, 8 of 8 slots busy")


def test_the_state_of_a_job_is_explained(site: Site, page: Any, client: tarry.Client, busy_worker: WarmProcess) -> None:
    orders = client.topic("orders")
    orders.add_many([NewJob({"n": n}, id=f"first-{n}") for n in range(8)])
    page.goto(site.at + "/topic?topic=orders")
    expect(page.locator(".tiles")).to_contain_text("of 8, 1 worker")
    expect(page.locator(".tiles dd.reserved")).to_have_text("8")
    orders.add({"n": 9}, id="waits")
    orders.add({"n": 10}, id="later", delay="4m")
    page.goto(site.at + "/job?topic=orders&id=waits")
    expect(page.locator(".why")).to_contain_text("It has been ready for")
    expect(page.locator(".why")).to_contain_text("All 8 slots of 1 worker are busy.")
    page.goto(site.at + "/job?topic=orders&id=first-3")
    expect(page.locator(".why")).to_contain_text(f"Process {busy_worker.pid} on ")
    page.goto(site.at + "/job?topic=orders&id=later")
    expect(page.locator(".why")).to_contain_text(re.compile(r"It is due in [23] m \d+ s"))
    expect(page.locator("pre")).to_have_text('{\n  "n": 10\n}')


def test_a_binary_body_is_shown_as_a_hex_dump(site: Site, page: Any, client: tarry.Client) -> None:
    client.topic("raw").add(bytes(range(256)), id="bytes", delay="1h")
    client.topic("raw").add("x" * 200_000, id="long", delay="1h")
    page.goto(site.at + "/job?topic=raw&id=bytes")
    expect(page.locator("pre")).to_contain_text(
        "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    )
    page.goto(site.at + "/job?topic=raw&id=long")
    expect(page.locator("h2", has_text="Body")).to_have_text("Body JSON, 200 kB, the beginning")
    assert len(page.content()) < 100_000


def test_a_map_cache_is_shown(site: Site, page: Any, client: tarry.Client, namespace: str) -> None:
    with client.map_cache(f"prices-{namespace}", codec="string") as prices:
        prices.put("tea", "4", ttl="1h")
        page.goto(site.at + "/maps")
        row = page.locator("tr", has_text=prices.name)
        expect(row.locator("td").first).to_have_text("1")
        expect(row).to_contain_text("59 m 5")


def test_the_namespace_can_be_switched(
    service: Service, page: Any, client: tarry.Client, valkey_url: str, namespace: str
) -> None:
    other = f"{namespace}-bills"
    with tarry.Client(valkey_url, namespace=other) as bills:
        client.topic("orders").add(0, delay="1h")
        bills.topic("due").add(0, delay="1h")
        service.start("--other-namespace", other)
        page.goto(service.at + "/schedules")
        page.locator(".spaces summary").click()
        page.get_by_role("navigation", name="Namespaces").get_by_role("link", name=other).click()
        page.wait_for_url(f"{service.at}/ns/{other}/schedules")
        page.click("nav a:text('Topics')")
        expect(page.locator("tbody th a")).to_have_text("due")
        page.click("th a:text('due')")
        expect(page.locator(".sign")).to_have_attribute("data-state", "live")
        bills.topic("due").add(1, delay="1h")
        expect(page.locator(".tiles dd.delayed")).to_have_text("2")
        linked = page.url
        page.locator(".spaces summary").click()
        page.get_by_role("navigation", name="Namespaces").get_by_role("link", name=namespace, exact=True).click()
        expect(page.locator("tbody th a")).to_have_text("orders")
        page.goto(linked)
        expect(page.locator("h1")).to_have_text("due")
        expect(page.locator(".sign")).to_have_attribute("data-state", "live")
        page.locator(".spaces summary").click()
        expect(page.locator(".spaces nav")).to_be_visible()
        opened = page.locator(".spaces nav").bounding_box()
        assert opened["x"] >= 0
        assert opened["x"] + opened["width"] <= 1280
        assert not serious_faults(page)
