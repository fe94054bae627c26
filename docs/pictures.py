"""Record `tarry demo` and `tarry top`, and the dashboard in light and dark, into docs/images: `make pictures`.

Each program runs on a server of its own. The dashboard's pictures need Chromium.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from rich.console import Console

import tarry
from tarry.programs.cli import timeline
from tarry.programs.cli.worker_commands import workers_of
from tarry.programs.demo import screen, story

IMAGES = Path(__file__).resolve().parent / "images"
COMMAND = Path(sys.executable).parent / "tarry"
WIDTH = 100
WORKED_S, WATCHED_S = 15, 90
"""How long the worker of the pictures has worked, and the dashboard has watched it, before a picture is taken."""


def record(name: str, title: str, console: Console) -> None:
    """Write what was printed as SVG."""
    drawn = console.export_svg(title=title, unique_id=name.partition(".")[0])
    own_fonts = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # Rich names a font on another host
    (IMAGES / name).write_text(own_fonts, encoding="utf-8")
    print("wrote", name)


def console() -> Console:
    """A console that remembers what it prints."""
    return Console(record=True, width=WIDTH, force_terminal=True, file=tempfile.TemporaryFile("w"))


def demo(url: str) -> None:
    """The screen of `tarry demo` just after a worker was killed, and its summary."""
    chosen, seconds = story.read_orders(None, 10.0), 10.0
    seen: list[object] = []

    def look(now: story.Story) -> None:
        if now.workers[0].killed and not seen:
            seen.append(screen.frame(now))

    found = asyncio.run(screen.play_for(url, chosen, seconds, look))
    terminal = console()
    terminal.print(
        f"$ tarry demo\n{len(chosen)} unpaid orders: each is closed when it is due, unless it is paid before."
    )
    terminal.print(*seen)
    terminal.print("  …", style="dim")
    terminal.print(screen.summary_table(found))
    record("demo.svg", "tarry demo", terminal)


def work(url: str) -> tarry.Worker:
    """A worker that is just a little too slow, for pictures with something to see."""
    worker = tarry.Worker("shop", url=url, concurrency=24)

    @worker.on("orders.close-unpaid", concurrency=16)
    async def close(body: object) -> None:
        await asyncio.sleep(0.15)

    @worker.on("mails", concurrency=8)
    async def send(body: object) -> None:
        await asyncio.sleep(random.uniform(0.01, 0.2))
        if random.random() < 0.02:
            raise tarry.Bury("mailbox unavailable")  # a few

    return worker


def fill(client: tarry.Client) -> None:
    """Jobs that are due now, soon and much later."""
    draw = random.Random(7)
    closing = [tarry.NewJob({"order": n}, delay=draw.triangular(0, 3600, 900)) for n in range(30_000)]
    closing += [tarry.NewJob({"order": 30_000 + n}, delay=draw.uniform(0, 300)) for n in range(30_000)]
    closing += [tarry.NewJob({"order": 60_000 + n}, delay=draw.triangular(3600, 86_400, 3600)) for n in range(9_000)]
    client.topic("orders.close-unpaid").add_many(closing)
    client.topic("mails").add_many(tarry.NewJob({"to": n}, delay=draw.expovariate(1 / 300)) for n in range(4_000))
    client.topic("reports.monthly").add_many([tarry.NewJob({"customer": n}, delay=f"{n}h") for n in range(1, 60)])


def top(client: tarry.Client) -> None:
    """One frame of `tarry top`."""
    terminal = console()
    before = timeline.view_topics(client, [], WIDTH)
    time.sleep(1)  # rates are differences to the frame before
    terminal.print("$ tarry top")
    terminal.print(timeline.frame(timeline.view_topics(client, [], WIDTH), before, workers_of(client.workers(), [])))
    record("top.svg", "tarry top", terminal)


def dashboard(url: str) -> None:
    """A topic's page, in light and in dark."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no pictures of the dashboard: needs Chromium (apt install chromium)")
        return
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([COMMAND, "--url", url, "serve", "--port", str(port)]) as service:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(WATCHED_S)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for dark, name in ((False, "dashboard.png"), (True, "dashboard-dark.png")):
                page = browser.new_page(
                    color_scheme="dark" if dark else "light", viewport={"width": 1280, "height": 1068}
                )
                for _ in range(20):
                    page.goto(f"http://127.0.0.1:{port}/topic?topic=orders.close-unpaid")
                    page.wait_for_timeout(4000)  # the live numbers have come
                    if not page.get_by_text("The server answers slowly").count():  # whoever else uses this machine
                        break
                page.screenshot(path=IMAGES / name)
                print("wrote", name)
            browser.close()
        service.send_signal(signal.SIGTERM)


def main() -> None:
    """All pictures."""
    logging.getLogger("tarry").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp") as folder:
        url = f"embedded://{folder}/server"
        with tarry.Client(url) as client:
            client.topics()  # the server lives as long as somebody is connected
            demo(url)
            fill(client)
            worker = work(url)
            thread = threading.Thread(target=lambda: asyncio.run(worker.run(signals=False)))
            thread.start()
            time.sleep(WORKED_S)
            top(client)
            dashboard(url)
            worker.stop()
            thread.join()


if __name__ == "__main__":
    main()
