"""The dashboard as people use it: a real browser, a real HTTP server, real jobs and workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from dashboard.conftest import Service, Site
from tarry import NewJob
from tarry.links.embedded.launch import Running

pytestmark = pytest.mark.slow
HIRED = Path(__file__).parent.parent / "programs" / "hired.py"
HOSTILE = [
    "<script>window.owned=1</script>",
    "\"><img src=x onerror='window.owned=1'>",
    "</title></textarea></pre><svg/onload=window.owned=1>",
    "javascript:window.owned=1",
    "'-alert(1)-'&lt;",
    "\u202egnp.exe",
]


@pytest.fixture
def hired(valkey_url: str, namespace: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker whose handlers never end: its eight slots are busy as long as there is something to do."""
    words = [sys.executable, str(HIRED), valkey_url, namespace, str(tmp_path / "diary"), "60", "0.1", "stuck"]
    process = subprocess.Popen(words)
    yield process
    process.kill()
    process.wait()


def expect(page: Any) -> Any:
    from playwright.sync_api import expect

    expect.set_options(timeout=10_000)
    return expect(page)


def numbers(page: Any) -> dict[str, str]:
    """The tiles by their names."""
    names, values = page.locator(".tiles dt").all_inner_texts(), page.locator(".tiles dd").all_inner_texts()
    return {name.removesuffix(" ›"): value for name, value in zip(names, values, strict=True)}


def test_counts_are_those_of_the_topics_and_stay_so(
    service: Service, page: Any, client: tarry.Client, hired: subprocess.Popen[bytes]
) -> None:
    service.start()
    orders, mail = client.topic("orders"), client.topic("mail")
    orders.add_many(range(20))
    orders.add_many([0, 1, 2], delay="1h")
    mail.add_many([NewJob(n, max_attempts=1) for n in range(3)])
    mail.release_many(mail.pop_many(2), 0, reason="ValueError: no address")
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


def test_why_a_job_is_where_it_is(site: Site, page: Any, client: tarry.Client, hired: subprocess.Popen[bytes]) -> None:
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
    expect(page.locator(".why")).to_contain_text(f"Process {hired.pid} on ")
    page.goto(site.at + "/job?topic=orders&id=later")
    expect(page.locator(".why")).to_contain_text(re.compile("It is due in 3 m 5\\d s"))
    expect(page.locator("pre")).to_have_text('{\n  "n": 10\n}')


def test_each_action_does_what_it_says(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")

    def at(id: str, button: str, *, sure: str = "") -> None:
        page.goto(f"{site.at}/job?topic=orders&id={id}")
        page.get_by_role("button", name=button, exact=True).click()
        if sure:
            page.locator("#ask").get_by_role("button", name=sure).click()
        expect(page.locator(".said")).to_be_visible()

    topic.add(0, id="now", delay="1h")
    at("now", "Run now")
    assert topic.get("now").state == "ready"  # type: ignore[union-attr]
    at("now", "Delete", sure="Delete 1 job")
    assert topic.get("now") is None

    topic.add(0, id="held")
    job = topic.pop()
    at("held", "Bury", sure="Bury 1 job")
    held = topic.get("held")
    assert held is not None
    assert (held.state, held.reason) == ("dead", "buried from the dashboard")
    with pytest.raises(tarry.StaleReceipt):
        topic.finish(job)  # type: ignore[arg-type]
    at("held", "Kick")
    assert topic.get("held").state == "ready"  # type: ignore[union-attr]

    page.fill("input[name=delay]", "3h")
    page.get_by_role("button", name="Reschedule").click()
    expect(page.locator(".said")).to_have_text("1 job rescheduled.")
    expect(page.locator(".why")).to_contain_text("It is due in 2 h 59 m")

    page.goto(site.at + "/topic?topic=orders")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".verdict")).to_have_text("Paused until somebody resumes it.")
    assert topic.stats().paused_until is not None
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert topic.stats().paused_until is None

    page.get_by_role("button", name="Delete everything").click()
    expect(page.locator("#ask h1")).to_have_text("Delete everything in orders: 1 job (1 delayed)?")
    page.get_by_role("link", name="Leave it").click()
    assert topic.stats().delayed == 1
    page.get_by_role("button", name="Delete everything").click()
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page.locator(".said")).to_have_text("1 job deleted.")
    assert topic.stats().delayed == 0


def test_many_are_done_at_once_and_counted_before(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n:03}", max_attempts=1) for n in range(120)])
    topic.release_many(topic.pop_many(120), 0, reason="ValueError: no")
    page.goto(site.at + "/jobs?topic=orders&state=dead")
    for id in ("003", "005"):
        page.get_by_label(f"Choose {id}").check()
    page.get_by_role("button", name="Kick").click()
    expect(page.locator("#ask h1")).to_have_text("Kick 2 jobs of orders?")
    topic.delete("005")  # meanwhile
    page.get_by_role("button", name="Kick 2 jobs").click()
    expect(page.locator(".said")).to_have_text("1 job kicked.")
    assert (topic.stats().ready, topic.stats().dead) == (1, 118)

    page.get_by_label("all 118 that match").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask h1")).to_have_text("Delete all 118 dead jobs of orders?")
    page.get_by_role("button", name="Delete 118 jobs").click()
    expect(page.locator("h1")).to_have_text("0 dead jobs")
    assert (topic.stats().ready, topic.stats().dead) == (1, 0)


def test_a_window_of_due_times_is_shown_and_acted_on(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}m", delay=60 * n) for n in range(1, 11)])
    page.goto(site.at + "/jobs?topic=orders&state=delayed")
    page.fill("input[name=after]", "in 3m")
    page.fill("input[name=before]", "in 6m30s")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("h1")).to_have_text(re.compile("[34] delayed jobs"))  # 3m may have gone by a moment ago
    page.get_by_label(re.compile("all . that match")).check()
    page.locator("fieldset input[name=delay]").fill("1d")
    page.get_by_role("button", name="Reschedule").click()
    page.locator("#ask").get_by_role("button", name="Reschedule").click()
    expect(page.locator(".said")).to_contain_text("rescheduled.")
    assert topic.histogram(start="23h", span="2h", buckets=1).counts[0] in (3, 4)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_producers_write_is_only_text(site: Site, page: Any, client: tarry.Client, hostile: str) -> None:
    topic = client.topic(hostile)
    topic.add({hostile: hostile, "n": 2**60 + 1}, id=hostile, headers={"x-" + hostile: hostile}, max_attempts=1)
    topic.release(topic.pop(), 0, reason=f"{hostile}\n{hostile}")  # type: ignore[arg-type]
    client.delayed_queue(hostile, codec="string").offer(hostile, "1h")
    page.goto(site.at)
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    shown = hostile.replace("\u202e", "⟨RIGHT-TO-LEFT OVERRIDE⟩")
    page.get_by_role("link", name=shown).first.click()
    expect(page.locator("h1")).to_have_text(shown)
    expect(page.locator("table td", has_text=shown).first).to_be_visible()
    page.locator("dt a:text('Dead')").click()
    page.locator("a.id").click()
    expect(page.locator("h1 bdi")).to_have_text(shown)
    expect(page.locator("pre").last).to_contain_text("1152921504606846977")
    expect(page.locator("dl.facts")).to_contain_text(shown)
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask h1")).to_contain_text(shown)
    page.locator("#ask").get_by_role("button", name="Delete 1 job").click()
    expect(page.locator(".said")).to_have_text("1 job deleted.")
    page.fill(".find input", hostile[:200])
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(shown)
    page.goto(site.at + "/queues")
    page.get_by_role("link", name=shown).first.click()
    expect(page.locator("td.body")).to_contain_text(shown)
    client.schedules.put(hostile, hostile.replace(" ", "/"), hostile, every="1h", headers={"x-" + hostile: hostile})
    page.goto(site.at + "/schedules")
    expect(page.locator("table")).to_contain_text(shown)
    page.get_by_role("link", name=shown.replace(" ", "/") if " " in hostile else shown).first.click()
    expect(page.locator("dl.facts")).to_contain_text(shown)
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask h1")).to_contain_text(shown)
    page.locator("#ask").get_by_role("button", name="Delete it").click()
    expect(page.locator("h1")).to_have_text("No schedule")
    assert page.evaluate("window.owned") is None


def test_a_body_that_is_no_text_is_shown_as_bytes(site: Site, page: Any, client: tarry.Client) -> None:
    client.topic("raw").add(bytes(range(256)), id="bytes", delay="1h")
    client.topic("raw").add("x" * 200_000, id="long", delay="1h")
    page.goto(site.at + "/job?topic=raw&id=bytes")
    expect(page.locator("pre")).to_contain_text(
        "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    )
    page.goto(site.at + "/job?topic=raw&id=long")
    expect(page.locator("h2", has_text="Body")).to_have_text("Body JSON, 200 kB, the beginning")
    assert len(page.content()) < 100_000


def test_a_restart_of_the_service_is_told_and_mended_by_itself(
    service: Service, page: Any, client: tarry.Client
) -> None:
    service.start()
    topic = client.topic("orders")
    topic.add(0, delay="1h")
    page.goto(service.at + "/topic?topic=orders")
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    service.stop()
    expect(page.locator(".sign")).to_have_attribute("data-state", "broken")
    expect(page.locator("#lost")).to_contain_text("The connection is lost.")
    topic.add(1, delay="1h")
    page.wrong.clear()  # that nobody answered is what the browser has to say of it
    service.start()
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator(".tiles dd.delayed")).to_have_text("2")
    page.wrong.clear()


def test_a_server_that_is_lost_is_told_and_mended_by_itself(
    own_server: Callable[..., Running], site_of: Callable[..., Site], page: Any
) -> None:
    running = own_server()
    site = site_of(running.url)
    page.goto(site.at)
    expect(page.locator("h1")).to_have_text("Nothing has been added yet.")
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    os.kill(running.pid, signal.SIGSTOP)
    try:
        expect(page.locator(".sign")).to_have_attribute("data-state", "lost")
        expect(page.locator("#lost")).to_contain_text("The server does not answer.")
        fresh = page.context.new_page()
        assert fresh.goto(site.at + "/topic?topic=orders").status == 503
        expect(fresh.locator("h1")).to_have_text("The server does not answer.")
    finally:
        os.kill(running.pid, signal.SIGCONT)
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    expect(page.locator("#lost")).to_be_hidden()
    expect(fresh.locator("h1")).to_have_text("orders")


def test_what_is_chosen_stays_while_the_page_is_live(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}", delay="1h") for n in range(3)])
    page.goto(site.at + "/jobs?topic=orders")
    page.get_by_label("Choose 1").check()
    topic.delete("0")
    expect(page.locator(".sign .word")).to_have_text("held while you choose")
    assert page.get_by_label("Choose 1").is_checked()
    page.get_by_label("Choose 1").uncheck()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_the_line_of_time_can_be_dragged_over_and_walked_along(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, delay=600 + n) for n in range(100)])
    page.goto(site.at + "/topic?topic=orders&look=hour")
    box = page.locator(".stretch.one").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + 80, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile("from=\\d+"))
    expect(page.locator(".under")).to_contain_text("100 jobs here")
    page.locator(".stretch.one").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("job")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/jobs\\?.*after=\\d+"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"


def test_it_works_without_scripts(site: Site, browser: Any, client: tarry.Client) -> None:
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


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_nothing_serious_for_those_who_cannot_see_or_point(
    site: Site, browser: Any, client: tarry.Client, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    topic = client.topic("orders")
    topic.add_many([NewJob({"n": n}, id=f"{n}", delay=20 * n, max_attempts=1) for n in range(100)])
    topic.release(topic.pop(), 0, reason="ValueError: no\nTraceback")  # type: ignore[arg-type]
    topic.add(0, id="late")
    client.schedules.put("orders", "daily", {"n": 1}, cron="0 9 * * *", tz="Europe/Berlin")
    site.sample()
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    for path in (
        "/",
        "/topic?topic=orders",
        "/topic?topic=orders&look=hour",
        "/jobs?topic=orders",
        "/job?topic=orders&id=0",
        "/find?q=order",
        "/schedules",
        "/schedule?topic=orders&name=daily",
        "/workers",
        "/queues",
        "/server",
        "/nowhere",
    ):
        page.goto(site.at + path)
        found = Axe().run(page).response["violations"]
        serious = [
            (fault["id"], fault["nodes"][0]["html"][:200])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert not serious, path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.goto(site.at + "/job?topic=orders&id=late")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask")).to_be_visible()
    found = Axe().run(page).response["violations"]
    assert not [fault["id"] for fault in found if fault["impact"] in ("serious", "critical")], "the question"
    context.close()
    assert all(url.startswith((site.at, "data:", "blob:")) for url in asked), "no other host is asked"


def test_a_lock_is_shown_and_taken_from_its_holder(site: Site, page: Any, client: tarry.Client, namespace: str) -> None:
    lock = client.lock(f"till-{namespace}", lease="10m")
    with pytest.raises(tarry.TarryError, match="it was taken away"), lock:  # noqa: PT012  # leaving the block raises
        page.goto(site.at + "/locks")
        row = page.locator("tr", has_text=lock.name)
        expect(row).to_contain_text("9 m 5")
        row.get_by_role("button", name="Release").click()
        expect(page.locator("#ask h1")).to_contain_text(f"Take {lock.name} from")
        page.locator("#ask").get_by_role("button", name="Release it").click()
        expect(page.locator(".said")).to_have_text(f"{lock.name} is free.")
        assert not lock.state().held


def test_a_map_cache_is_shown(site: Site, page: Any, client: tarry.Client, namespace: str) -> None:
    with client.map_cache(f"prices-{namespace}", codec="string") as prices:
        prices.put("tea", "4", ttl="1h")
        page.goto(site.at + "/maps")
        row = page.locator("tr", has_text=prices.name)
        expect(row.locator("td").first).to_have_text("1")
        expect(row).to_contain_text("59 m 5")
