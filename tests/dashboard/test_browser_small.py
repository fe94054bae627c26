"""Every page on a small screen: cards, nothing is cut, nothing is moved sideways to be read. Times with their zone; the legend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from dashboard.conftest import Site, expect
from dashboard.test_live_streams import QUERIES
from tarry.programs.dashboard.sections import sections
from tarry.verbs.workers import ReportedJob, WorkerReport, WorkerTopic, report_worker
from until import until

pytestmark = pytest.mark.slow
WIDTH = 390
LONG = "a-name-that-is-rather-long-for-a-small-screen"
QUERY = {**QUERIES, "/locks": f"name={LONG}", "/maps": f"name={LONG}"}
OVERHANG = """(width) => [...document.querySelectorAll('body *')].filter((one) => {
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  if (one.closest('pre, svg, dialog, .unseen, .skip, thead') || style.visibility === 'hidden' || !box.width) return false;
  const scrolls = ['auto', 'scroll'].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
  return box.right > width + 1 || (box.left < -1 && box.right > 0) || scrolls;
}).map((one) => one.outerHTML.slice(0, 150))"""


@pytest.fixture
def full(site: Site, client: tarry.Client) -> Iterator[Site]:
    """Something on each page."""
    orders = client.topic("orders")
    orders.add_many([tarry.NewJob({"text": "tea " * 50}, id=f"{n}-{LONG}", max_attempts=1) for n in range(3)])
    orders.release(orders.pop(), reason=f"ValueError: {LONG * 3}")  # type: ignore[arg-type]
    held = orders.pop()
    assert held is not None
    orders.add(0, id="7", delay="1h", headers={LONG: LONG * 2}, key=LONG * 4)
    client.schedules.put("orders", "daily", every="1d")
    client.schedules.put("orders", LONG, cron="0 9 * * *", tz="Europe/Berlin")
    client.delayed_queue("java", codec="string").offer(LONG * 5, "1h")
    topics = [WorkerTopic("orders", ("close", "an_old_handler_with_a_name", "send_mail"), 50, 1, overrun=1)]
    job = ReportedJob("orders", held.id, 1, 1, overrun=True)
    report = WorkerReport("a-host.somewhere.example", 4711, "1", 50, 1, False, topics, [job], "work")
    client.engine.run(report_worker(client.namespace, b"ada", None, report))
    site.sample()
    with client.map_cache(LONG, codec="string") as prices, client.lock(LONG, lease="10m") as _:
        prices.put("tea", "4", ttl="1h")
        yield site


def test_no_page_is_wider_than_a_small_screen(full: Site, browser: Any) -> None:
    context = browser.new_context(viewport={"width": WIDTH, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(full.at + "/queues")
    until(lambda: page.goto(full.at + "/") and page.locator(".bar nav a").count() == 7, "the navigation has all links")
    for section in sections():
        for more in ("", "&look=hour&heat=day") if section.path == "/topic" else ("",):
            path = f"{section.path}?{QUERY.get(section.path, '')}{more}"
            page.goto(full.at + path)
            if section.every_s:
                expect(page.locator(".sign")).to_have_attribute("data-state", "live")
            assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH, path
            assert page.evaluate(OVERHANG, WIDTH) == [], path
            unnamed = page.locator(".plain tbody td:not([data-label])").all_inner_texts()
            assert {*unnamed} <= {"", "Release", "Run now\nPause\nDelete", "Run nowPauseDelete"}, f"{path}: what is it?"
    page.goto(full.at + "/schedules")
    for name in ("Pause", "Delete"):
        box = page.get_by_role("button", name=name).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= WIDTH
    for path in ("/nowhere", "/job?topic=orders&id=none"):
        page.goto(full.at + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH, path
    context.close()


def test_every_time_has_its_zone(full: Site, browser: Any) -> None:
    paths = ("/job?topic=orders&id=7", "/schedules", "/schedule?topic=orders&name=daily", "/queue?name=java")
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-US")
    page = context.new_page()
    for path in paths:
        page.goto(full.at + path)
        times = page.locator("time")
        expect(times.first).to_contain_text("GMT+9")
        assert all(text.endswith("GMT+9") for text in times.all_inner_texts()), path
        assert times.first.get_attribute("title").endswith("UTC"), path
        expect(page.locator("footer [data-zone]")).to_have_text("Asia/Tokyo, GMT+9")
    context.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for path in paths:
        page.goto(full.at + path)
        assert all(text.endswith("UTC") for text in page.locator("time").all_inner_texts()), path
        expect(page.locator("footer [data-zone]")).to_have_text("UTC")
    context.close()


def test_a_chart_says_its_zone(full: Site, browser: Any) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-US")
    page = context.new_page()
    page.goto(full.at + "/topic?topic=orders&look=hour")
    expect(page.locator(".under [data-zone]")).to_have_text("Asia/Tokyo, GMT+9")
    page.locator(".stretch.one").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("GMT+9")
    context.close()


def test_the_legend_has_each_state_in_its_colour(full: Site, page: Any) -> None:
    page.goto(full.at + "/jobs?topic=orders")
    page.get_by_text("Legend").click()
    for state in ("delayed", "ready", "reserved", "dead"):
        colours = [
            page.locator(f"{where} .state.{state}").first.evaluate("(one) => getComputedStyle(one).color")
            for where in (".key", ".jobs")
        ]
        assert len(set(colours)) == 1, state
    expect(page.locator(".key dt .state")).to_have_text(["delayed", "ready", "reserved", "dead", "finished"])
