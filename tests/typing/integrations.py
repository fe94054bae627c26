# pyright: strict, reportUnknownMemberType=true, reportUnknownVariableType=true, reportUnknownArgumentType=true
"""What type checkers must know about applications with a worker in them. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_type

from fastapi import FastAPI
from starlette.applications import Starlette

import tarry
import tarry.django

inside = tarry.Worker("shop")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with inside as same:
        assert_type(same, tarry.Worker)
        yield


FastAPI(lifespan=lifespan)
Starlette(lifespan=lifespan)


@tarry.django.worker.task
def close(order: int) -> None: ...


assert_type(tarry.django.worker, tarry.Worker)
assert_type(tarry.django.client(), tarry.Client)
assert_type(tarry.django.async_client(), tarry.AsyncClient)
assert_type(close.options(delay="30m").add(7), tarry.TaskJob[None])
close.add("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
