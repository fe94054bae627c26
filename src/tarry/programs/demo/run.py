"""``tarry demo``: runs the story, shows its progress, and returns the summary."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from rich.live import Live

from tarry.clients.awaited.client import AsyncClient
from tarry.programs.demo import orders, screen, story
from tarry.programs.demo.summary import Summary


def demo(url: str | None, count: int | None, seconds: float, *, quiet: bool) -> Summary:
    """Runs the demo. ``quiet``: progress goes to stderr, and only if that is a terminal."""
    console = screen.open_console(stderr=quiet)
    chosen = orders.read(count, seconds)
    if not quiet:
        console.print(f"{len(chosen)} unpaid orders: each is closed when it is due, unless it is paid before.")
    try:
        if not console.is_terminal:
            return asyncio.run(
                _play(url, chosen, seconds, screen.show_nothing if quiet else screen.PlainOutput(console).show)
            )
        with Live(console=console, auto_refresh=False, transient=quiet) as live:
            return asyncio.run(_play(url, chosen, seconds, lambda now: live.update(screen.frame(now), refresh=True)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # SIGTERM


async def _play(
    url: str | None, chosen: list[orders.Order], seconds: float, show: Callable[[story.Story], None]
) -> Summary:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # the workers are stopped, too
    async with AsyncClient(url, namespace=story.namespace()) as client:
        return await story.Story(client, chosen, seconds).run(url, show)
