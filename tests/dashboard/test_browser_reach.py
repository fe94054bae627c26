"""The dashboard for everybody: by keyboard and mouse, without scripts, on a small screen, by a screen reader."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tarry
from dashboard.conftest import BY_SCREEN, Site, expect, serious_faults
from tarry import NewJob

pytestmark = pytest.mark.slow


def test_the_timeline_works_by_mouse_and_keyboard(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, delay=600 + n) for n in range(100)])
    page.goto(site.at + "/topic?topic=orders&look=hour")
    expect(page.locator(".sign")).to_have_attribute(
        "data-state", "live"
    )  # the first update must not come during the drag
    box = page.locator(".stretch.one").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + 80, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile("from=\\d+"))
    expect(page.locator(".under")).to_contain_text("100 jobs shown")
    page.locator(".stretch.one").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("job")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/jobs\\?.*after=\\d+"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"


def test_the_dashboard_works_without_javascript(site: Site, browser: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add(0, id="7", delay="1h")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.at)
    page.click("th a:text('orders')")
    page.click("a.stretch.hour")
    assert "look=hour" in page.url
    page.goto(site.at + "/job?topic=orders&id=7")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page.locator(".said")).to_have_text("1 job deleted.")
    context.close()
    assert topic.get("7") is None


SCREENS = (("light", 1280), ("dark", 390))


@pytest.mark.parametrize(
    "screens", [SCREENS, *(pytest.param((one,), marks=pytest.mark.long) for one in SCREENS)], ids=str
)
def test_the_dashboard_has_no_serious_accessibility_faults(
    site: Site, browser: Any, client: tarry.Client, screens: tuple[tuple[str, int], ...]
) -> None:
    """Each page is loaded once, and looked at on both screens, on the second one by what may differ there; in ``make test-long`` it is loaded on
    each, and looked at by all rules."""
    topic = client.topic("orders")
    topic.add_many([NewJob({"n": n}, id=f"{n}", delay=40 * n, max_attempts=1) for n in range(53)])
    topic.release(topic.pop(), delay=0, reason="ValueError: no\nTraceback")  # type: ignore[arg-type]
    topic.add(0, id="late")
    topic.configure(key_concurrency=2, fair=True)
    topic.add_many([0, 1], key="customer-7")
    topic.pause(key="customer-7")
    client.schedules.put("orders", "daily", {"n": 1}, cron="0 9 * * *", tz="Europe/Berlin")
    site.sample()
    context = browser.new_context(reduced_motion="reduce")
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))

    def look(path: str) -> None:
        for at, (scheme, width) in enumerate(screens):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            if not at and path.startswith("/"):
                page.goto(site.at + path)
            assert not serious_faults(page, BY_SCREEN if at else None), (path, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, scheme)

    for path in (
        "/",
        "/topic?topic=orders",
        "/topic?topic=orders&look=hour",
        "/jobs?topic=orders",
        "/dead?topic=orders",
        "/job?topic=orders&id=0",
        "/find?q=order",
        "/schedules",
        "/schedule?topic=orders&name=daily",
        "/workers",
        "/queues",
        "/server",
        "/nowhere",
    ):
        look(path)
    page.goto(site.at + "/job?topic=orders&id=late")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask")).to_be_visible()
    look("the question")
    context.close()
    assert all(url.startswith((site.at, "data:", "blob:")) for url in asked), "no other host is asked"
