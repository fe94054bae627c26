"""The dashboard of a topic with a million jobs: the server's cost of a refresh, and the browser's first paint.

The server counts its own time (INFO commandstats, of the commands that a client sent). The browser is the system's Chromium,
where it is installed; it measures the first contentful paint itself, in a new tab, with all assets cached.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

import tarry
from bench.harness import BODY, Bench
from bench.results import Reading, Result, Target
from bench.rows.idle import inside_scripts
from tarry.programs.dashboard import Dashboard
from tarry.programs.serving.listener import open_listener

PATH = "/topic?topic=orders&look=hour"
SPREAD_S = 5 * 86400


def dashboard(bench: Bench) -> list[Result]:
    count = bench.size(1_000_000, 1_000_000, 2_000)
    with tarry.Client(bench.url) as client:
        topic = client.topic("orders")
        for at in range(0, count, 10_000):
            few = min(10_000, count - at)
            topic.add_many([tarry.NewJob(BODY, delay=random.random() * SPREAD_S) for _ in range(few)])
    return asyncio.run(_look(bench, count))


async def _look(bench: Bench, count: int) -> list[Result]:
    async with tarry.AsyncClient(bench.url) as client, _served(Dashboard(client)) as (board, place):
        results = [await _refresh(bench, board, place, count)]
        if bench.effort != "tiny" and shutil.which("chromium"):
            results += await _browser(bench, place, count)
        return results


@asynccontextmanager
async def _served(board: Dashboard) -> AsyncIterator[tuple[Dashboard, str]]:
    import uvicorn

    with open_listener("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(board, lifespan="off", log_level="error"))
        running = asyncio.ensure_future(server.serve([listener]))
        yield board, f"http://127.0.0.1:{listener.getsockname()[1]}"
        await board.close()
        server.should_exit = True
        await running


async def _refresh(bench: Bench, board: Dashboard, place: str, count: int) -> Result:
    spent_ms, answered_ms = list[float](), list[float]()
    async with httpx.AsyncClient(timeout=30) as http:
        await http.get(place + PATH)
        for _ in range(bench.size(50, 20, 2)):
            board.view_cache.invalidate()
            before = await asyncio.to_thread(_spent_us, bench)
            began = time.perf_counter()
            await http.get(place + PATH)
            answered_ms.append((time.perf_counter() - began) * 1000)
            spent_ms.append((await asyncio.to_thread(_spent_us, bench) - before) / 1000)
    return Result(
        "dashboard",
        f"the server's time for a refresh of a topic with {count:,} jobs",
        "ms",
        Reading(tuple(spent_ms)),
        Target("≤", 5),
        None,
        {"a page is answered in ms": Reading(tuple(answered_ms)).median},
    )


def _spent_us(bench: Bench) -> float:
    """Commands that clients send: those inside of scripts are part of EVALSHA's time. Its own INFO does not count."""
    left_out = inside_scripts() | {"info"}
    return sum(us for name, (_, us) in bench.calls().items() if name not in left_out)


async def _browser(bench: Bench, place: str, count: int) -> list[Result]:
    from playwright.async_api import async_playwright

    painted, size = list[float](), 0
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1280, "height": 900})
        for turn in range(bench.size(10, 5, 1) + 1):
            page = await context.new_page()
            bodies: list[Any] = []
            page.on("response", lambda response, seen=bodies: seen.append(response))
            await page.goto(place + PATH, wait_until="load")
            first = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            while (at := await page.evaluate(first)) is None:  # noqa: ASYNC110  # the page's policy allows no other way of waiting
                await asyncio.sleep(0.005)
            if turn:
                painted.append(at)
            else:
                plain = [one for one in bodies if "event-stream" not in one.headers.get("content-type", "")]
                size = sum([len(await one.body()) for one in plain])
            await page.close()
        await browser.close()
    return [
        Result(
            "dashboard",
            f"first paint of a topic with {count:,} jobs, in Chromium",
            "ms",
            Reading(tuple(painted)),
            Target("≤", 300),
        ),
        Result("dashboard", "size of the page with all that it loads", "bytes", Reading((size,)), Target("≤", 300_000)),
    ]
