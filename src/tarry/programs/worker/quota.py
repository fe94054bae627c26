"""How many jobs a child process may run before another one takes its place (``--max-jobs-per-child``)."""

from __future__ import annotations

import asyncio


class JobQuota:
    """The jobs that this process may still take. All its topics share them."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.used_up = asyncio.Event()

    def take(self, jobs: int) -> None:
        self.left -= jobs
        if self.left <= 0:
            self.used_up.set()
