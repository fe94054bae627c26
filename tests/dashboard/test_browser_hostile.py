"""Text of producers is only text in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from dashboard.conftest import Site, expect

pytestmark = pytest.mark.slow
HOSTILE = [
    "<script>window.owned=1</script>",
    "\"><img src=x onerror='window.owned=1'>",
    "\u202egnp.exe",
    "</title></textarea></pre><svg/onload=window.owned=1>",
    "'-alert(1)-'&lt;",
]
"""None needs to stand at the beginning of a text to do harm."""
ALONE = [*HOSTILE, "javascript:window.owned=1"]


def as_shown(text: str) -> str:
    return text.replace("\u202e", "⟨RIGHT-TO-LEFT OVERRIDE⟩")


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param("".join(HOSTILE), id="all in one"),
        *(pytest.param(text, marks=pytest.mark.long) for text in ALONE),
    ],
)
def test_texts_of_producers_are_escaped(site: Site, page: Any, client: tarry.Client, hostile: str) -> None:
    topic = client.topic(hostile)
    topic.add({hostile: hostile, "n": 2**60 + 1}, id=hostile, headers={"x-" + hostile: hostile}, max_attempts=1)
    topic.release(topic.pop(), delay=0, reason=f"{hostile}\n{hostile}")  # type: ignore[arg-type]
    client.delayed_queue(hostile, codec="string").offer(hostile, "1h")
    page.goto(site.at)
    expect(page.locator(".sign")).to_have_attribute("data-state", "live")
    shown = as_shown(hostile)
    page.get_by_role("link", name=shown).first.click()
    expect(page.locator("h1")).to_have_text(shown)
    expect(page.locator("table.groups")).to_contain_text(topic.dead_groups().groups[0].error)
    page.get_by_role("link", name="Search, kick").click()
    expect(page.locator("table.groups")).to_contain_text(topic.dead_groups().groups[0].error)
    page.fill("input[name=error]", hostile)
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".told")).to_have_text("1 of 1 job matches.")
    page.go_back()
    page.go_back()
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
    name = hostile.replace(" ", "/")
    client.schedules.put(hostile, name, hostile, every="1h", headers={"x-" + hostile: hostile})
    page.goto(site.at + "/schedules")
    expect(page.locator("table")).to_contain_text(shown)
    page.get_by_role("link", name=as_shown(name)).first.click()
    expect(page.locator("dl.facts")).to_contain_text(shown)
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#ask h1")).to_contain_text(shown)
    page.locator("#ask").get_by_role("button", name="Delete it").click()
    expect(page.locator("h1")).to_have_text("No schedules")
    assert page.evaluate("window.owned") is None
