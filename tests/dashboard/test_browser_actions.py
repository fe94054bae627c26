"""The dashboard's actions in a real browser: each one, and many at once, after the confirmation."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest

import tarry
from dashboard.conftest import Site, expect
from tarry import NewJob
from tarry.core.requests import Command
from until import until

pytestmark = pytest.mark.slow


def test_each_action_works(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")

    def press(id: str, button: str, *, sure: str = "") -> None:
        page.goto(f"{site.at}/job?topic=orders&id={id}")
        page.get_by_role("button", name=button, exact=True).click()
        if sure:
            page.locator("#ask").get_by_role("button", name=sure).click()
        expect(page.locator(".said")).to_be_visible()

    topic.add(0, id="now", delay="1h")
    press("now", "Run now")
    assert topic.get("now").state == "ready"  # type: ignore[union-attr]
    press("now", "Delete", sure="Delete 1 job")
    assert topic.get("now") is None

    topic.add(0, id="held")
    job = topic.pop()
    press("held", "Bury", sure="Bury 1 job")
    held = topic.get("held")
    assert held is not None
    assert (held.state, held.reason) == ("dead", "buried from the dashboard")
    with pytest.raises(tarry.StaleReceipt):
        topic.finish(job)  # type: ignore[arg-type]
    press("held", "Kick")
    assert topic.get("held").state == "ready"  # type: ignore[union-attr]

    page.fill("input[name=delay]", "3h")
    page.get_by_role("button", name="Reschedule").click()
    expect(page.locator(".said")).to_have_text("1 job rescheduled.")
    expect(page.locator(".why")).to_contain_text(re.compile(r"It is due in (3 h|2 h \d+ m)"))

    page.goto(site.at + "/topic?topic=orders")
    page.get_by_role("button", name="Pause").click()
    # a minute after the pop there is a second condition: no consumer
    expect(page.locator(".verdict", has_text="Paused until it is resumed.")).to_be_visible()
    assert topic.stats().paused_until is not None
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert topic.stats().paused_until is None

    page.get_by_role("button", name="Delete everything").click()
    expect(page.locator("#ask h1")).to_have_text("Delete everything in orders: 1 job (1 delayed)?")
    page.get_by_role("link", name="Go back").click()
    assert topic.stats().delayed == 1
    page.get_by_role("button", name="Delete everything").click()
    page.get_by_label("Type orders to confirm").fill("orders")
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page.locator(".said")).to_have_text("1 job deleted.")
    assert topic.stats().delayed == 0


@pytest.mark.parametrize("scripts", [True, False], ids=["with the script", "without it"])
def test_enter_twice_destroys_nothing(
    site: Site, browser: Any, client: tarry.Client, namespace: str, scripts: bool
) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}", delay="1h") for n in range(3)])
    client.schedules.put("orders", "daily", every="1d")
    queue = client.delayed_queue(f"java-{namespace}", codec="string")
    queue.offer("tea", "1h")
    context = browser.new_context(java_script_enabled=scripts, reduced_motion="reduce")
    page = context.new_page()
    for path, button in (
        ("/topic?topic=orders", "Delete everything"),
        ("/job?topic=orders&id=0", "Delete"),
        ("/schedule?topic=orders&name=daily", "Delete"),
        (f"/queue?name={queue.name}", "Clear"),
    ):
        page.goto(site.at + path)
        page.get_by_role("button", name=button, exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.locator("#sure")).to_be_visible()
        expect(page.get_by_role("link", name="Go back")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="Go back")).to_be_hidden()
    context.close()
    assert topic.stats().delayed == 3
    assert client.schedules.get("orders", "daily") is not None
    assert queue.stats().waiting == 1


def test_a_whole_topic_is_deleted_only_by_its_name(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many(range(3), delay="1h")
    for path, button in (("/topic?topic=orders", "Delete everything"), ("/jobs?topic=orders", "Delete")):
        page.goto(site.at + path)
        if path.startswith("/jobs"):
            page.get_by_label("all 3 that match").check()
        page.get_by_role("button", name=button, exact=True).click()
        dialog = page.locator("#ask")
        dialog.get_by_role("button", name="Delete 3 jobs").click()
        expect(dialog).to_be_visible()  # the browser asks for the name
        dialog.get_by_label("Type orders to confirm").fill("order")
        dialog.get_by_role("button", name="Delete 3 jobs").click()
        expect(page.get_by_role("alert")).to_have_text("Nothing was deleted: the name that you typed is not orders.")
        assert topic.stats().delayed == 3
    page.get_by_label("Type orders to confirm").fill("orders")
    page.get_by_role("button", name="Delete 3 jobs").click()
    expect(page.locator(".said")).to_have_text("3 jobs deleted.")
    assert topic.stats().delayed == 0


def test_a_shared_queue_is_cleared_only_by_its_name(
    site: Site, page: Any, client: tarry.Client, namespace: str
) -> None:
    queue = client.delayed_queue(f"java-{namespace}", codec="string")
    queue.offer("tea", "1h")
    keys = queue.verbs.keys
    client.engine.run(Command((b"HSET", keys.poison, b"unreadable", b"1 why"), int))
    page.goto(f"{site.at}/queue?name={queue.name}")
    expect(page.locator(".verdict")).to_contain_text("1 element could not be read or handled, and was set aside.")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.get_by_role("button", name="Clear 1", exact=True).click()
    expect(page.locator("#ask")).to_be_visible()  # the browser asks for the name
    assert queue.stats().waiting == 1
    page.get_by_label(f"Type {queue.name} to confirm").fill(queue.name)
    page.get_by_role("button", name="Clear 1", exact=True).click()
    expect(page.locator(".said")).to_have_text(f"All delayed elements of {queue.name} were removed.")
    assert queue.stats().waiting == 0


def test_what_destroys_stands_last_on_every_page(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}", max_attempts=1) for n in range(3)])
    topic.bury_many(topic.pop_many(2), reason="ValueError: no")
    topic.add(3, delay="1h")
    rows = {
        "/topic?topic=orders": ".actions",
        "/job?topic=orders&id=0": ".actions",
        "/job?topic=orders&id=2": ".actions",
        "/dead?topic=orders": ".acts",
        "/jobs?topic=orders&state=dead": ".bulk",
        "/jobs?topic=orders": ".bulk",
        "/jobs?topic=orders&state=delayed": ".bulk",
    }
    shown = {}
    for path, bar in rows.items():
        page.goto(site.at + path)
        found = page.locator(f"{bar} :is(button, a.button)").all_inner_texts()
        assert found, path
        places = [found.index(name) for name in ("Kick", "Kick all dead", "Bury", "Cancel runs") if name in found]
        assert found[-1] in ("Delete", "Delete everything"), found
        assert places == sorted(places)
        shown[path] = found
    assert shown["/dead?topic=orders"] == ["Export", "Kick", "Delete"]
    assert shown["/jobs?topic=orders&state=dead"] == ["Kick", "Delete"]
    assert shown["/job?topic=orders&id=0"] == ["Edit", "Duplicate", "Kick", "Delete"]
    assert shown["/jobs?topic=orders"] == ["Run now", "Reschedule", "Kick", "Bury", "Cancel runs", "Delete"]


def test_bulk_actions_are_counted_before_they_run(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n:03}", max_attempts=1) for n in range(120)])
    topic.release_many(topic.pop_many(120), delay=0, reason="ValueError: no")
    page.goto(site.at + "/jobs?topic=orders&state=dead")
    for id in ("003", "005"):
        page.get_by_label(f"Select {id}").check()
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


def test_a_window_of_due_times_is_shown_and_rescheduled(site: Site, page: Any, client: tarry.Client) -> None:
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


def test_a_lock_is_shown_and_force_released(site: Site, page: Any, client: tarry.Client, namespace: str) -> None:
    lock = client.lock(f"till-{namespace}", lease="10m")
    with pytest.raises(tarry.TarryError, match="it was taken away"), lock:  # noqa: PT012  # leaving the block raises
        page.goto(site.at + "/locks")
        row = page.locator("tr", has_text=lock.name)
        expect(row).to_contain_text("9 m 5")
        row.get_by_role("button", name="Release").click()
        expect(page.locator("#ask h1")).to_contain_text(f"Release {lock.name}, which")
        page.locator("#ask").get_by_role("button", name="Release it").click()
        expect(page.locator(".said")).to_have_text(f"{lock.name} is free.")
        assert not lock.state().held


def test_a_running_job_is_cancelled(site: Site, page: Any, client: tarry.Client) -> None:
    worker, seen, topic = tarry.Worker(client=client), list[str](), client.topic("orders")

    @worker.on("orders", ttr="5s", concurrency=3)
    async def close(job: tarry.AsyncJob[Any]) -> None:
        seen.append(f"{job.id} runs")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"{job.id} is cancelled")
            raise

    topic.add_many([NewJob(n, id=f"{n}") for n in range(3)])
    topic.add(3, id="waits", delay="1h")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run(signals=False)))
    thread.start()
    try:
        until(lambda: len(seen) == 3, "they run")
        page.goto(site.at + "/job?topic=orders&id=waits")
        expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)
        page.goto(site.at + "/job?topic=orders&id=0")
        page.get_by_role("button", name="Cancel run").click()
        expect(page.locator("#ask")).to_contain_text("its worker is told within half of its time to run")
        page.get_by_role("button", name="Cancel 1 job").click()
        expect(page.locator(".said")).to_have_text("1 job cancelled.")
        until(lambda: "0 is cancelled" in seen, "its run is stopped")
        page.goto(site.at + "/jobs?topic=orders&state=reserved")
        page.get_by_label("all 2 that match").check()
        page.get_by_role("button", name="Cancel runs").click()
        page.get_by_role("button", name="Cancel 2 jobs").click()
        expect(page.locator("h1")).to_have_text("0 reserved jobs")
        until(lambda: {"1 is cancelled", "2 is cancelled"} <= {*seen}, "so are theirs")
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join()
        loop.close()
    assert [job.id for job in topic.list().jobs] == ["waits"]
