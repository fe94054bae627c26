"""A page that stays open, in a real browser: it is live, says when it is not, and comes back."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from dashboard.conftest import Service, Site, expect
from tarry import NewJob
from tarry.connections.embedded.server_process import ServerProcess

pytestmark = pytest.mark.slow


def test_a_page_shows_a_service_restart_and_recovers(service: Service, page: Any, client: tarry.Client) -> None:
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


def test_a_page_shows_a_lost_server_and_recovers(
    own_server: Callable[..., ServerProcess], site_of: Callable[..., Site], page: Any
) -> None:
    running = own_server()
    site = site_of(running.url, shows_lost=True)
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
    expect(fresh.locator("h1")).to_have_text("Not found.")


def test_a_selection_stays_while_the_page_updates(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}", delay="1h") for n in range(3)])
    page.goto(site.at + "/jobs?topic=orders")
    page.get_by_label("Select 1").check()
    topic.delete("0")
    expect(page.locator(".sign .word")).to_have_text("paused while you select")
    assert page.get_by_label("Select 1").is_checked()
    page.get_by_label("Select 1").uncheck()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_bar_chosen_by_keyboard_stays_while_the_page_updates(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, delay="30m") for n in range(3)])
    page.goto(site.at + "/topic?topic=orders&look=hour")
    page.locator(".stretch.one").focus()
    page.keyboard.press("End")
    topic.add(3, delay="30m")
    expect(page.locator(".sign .word")).to_have_text("paused while you select")
    expect(page.locator(".readout")).to_contain_text("job")
    page.keyboard.press("Tab")
    expect(page.locator(".readout")).to_be_empty()
    expect(page.locator(".tiles dd.delayed")).to_have_text("4")

    page.locator(".stretch.one").focus()
    page.keyboard.press("Home")
    topic.add(4, delay="30m")
    expect(page.locator(".sign .word")).to_have_text("paused while you select")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/jobs\\?.*after=\\d+"))


def test_a_selection_of_all_matches_stays_while_the_page_updates(site: Site, page: Any, client: tarry.Client) -> None:
    topic = client.topic("orders")
    topic.add_many([NewJob(n, id=f"{n}", delay="1h") for n in range(3)])
    page.goto(site.at + "/jobs?topic=orders")
    page.get_by_label("all 3 that match").check()
    topic.delete("0")
    expect(page.locator(".sign .word")).to_have_text("paused while you select")
    assert page.get_by_label("all 3 that match").is_checked()
    page.get_by_label("the selected jobs").check()
    expect(page.locator("tbody tr")).to_have_count(2)

    page.locator("fieldset input[name=delay]").fill("1d")
    page.get_by_label("the selected jobs").focus()
    topic.delete("1")
    expect(page.locator(".sign .word")).to_have_text("paused while you select")
    expect(page.locator("fieldset input[name=delay]")).to_have_value("1d")
