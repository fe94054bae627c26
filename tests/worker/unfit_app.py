"""An application for ``tarry worker unfit_app:worker``, whose renewal fails at every try."""

from __future__ import annotations

from typing import Any

import tarry
from tarry.connections import background
from tarry.core.patience import RetryDelay

worker = tarry.Worker()
background.RetryDelay = lambda: RetryDelay(0, 0)  # type: ignore[misc,assignment]  # no pauses


@worker.on("orders")
async def close(job: tarry.AsyncJob[Any]) -> None: ...


def fail(worked: bool) -> None:
    raise TypeError("a bug of tarry")


worker.inner.on_alive = fail
