"""One Chromium for all tests of a process; each test has a context of its own, as another profile would be."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = (
    "--no-sandbox --disable-dev-shm-usage --disable-gpu --in-process-gpu --disable-site-isolation-trials "
    "--renderer-process-limit=1 --disable-software-rasterizer "
    "--disable-features=HttpsUpgrades,MediaRouter,OptimizationHints,PaintHolding,WebUIOmniboxPopup,WebUIOmniboxAimPopup"
).split()
"""All pages are one site: one process for them, and none to draw, nor a graphics card in software. The last two features draw a window's
address bar, which nobody sees, in a process of its own: half a second of processor time for each context."""


def find_chromium() -> str | None:
    """Chromium without windows, of the same version, if it is there: a page needs a third less processor time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright, which has no browser of its own here."""
    found = find_chromium()
    if found is None:
        pytest.skip("needs chromium (apt install chromium-headless-shell)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=CHROMIUM)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Iterator[Any]:
    """For one module: its event loop counts as running in this thread meanwhile, and no other test could run one."""
    browser, loop = chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)
