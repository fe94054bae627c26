"""One Chromium for all tests of a process; each test has a context of its own, as another profile would be."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = (
    "--no-sandbox --disable-dev-shm-usage --disable-gpu --in-process-gpu --disable-site-isolation-trials "
    "--renderer-process-limit=1 --disable-software-rasterizer "
    "--disable-features=HttpsUpgrades,MediaRouter,OptimizationHints,PaintHolding,WebUIOmniboxPopup,WebUIOmniboxAimPopup"
).split()
"""All pages are one site: one process for them, and none to draw, nor a graphics card in software. The last two features draw a window's
address bar, which nobody sees, in a process of its own: half a second of processor time for each context."""

LONGEST_MS = 60_000
"""No page needs so long; it is there so that a hang is told. Playwright waits 5 s for what is expected, and 30 s for what is done."""


def find_chromium() -> str | None:
    """Chromium without windows, of the same version, if it is there: a page needs a third less processor time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright, which has no browser of its own here."""
    found = find_chromium()
    if found is None:
        pytest.skip("needs chromium (apt install chromium-headless-shell)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=LONGEST_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=CHROMIUM, timeout=LONGEST_MS)
        browser.new_context, browser.new_page = _patient(browser.new_context), _patient(browser.new_page)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """A method that makes a context or a page, which then waits as long as a busy machine needs."""

    def made(**options: Any) -> Any:
        one = make(**options)
        one.set_default_timeout(LONGEST_MS)
        return one

    return made


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Iterator[Any]:
    """For one module: its event loop counts as running in this thread meanwhile, and no other test could run one."""
    browser, loop = chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)
