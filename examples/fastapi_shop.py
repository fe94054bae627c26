"""A shop on FastAPI: an order that is not paid in time is closed. The worker starts and stops with the application.

$ uvicorn fastapi_shop:app
$ curl -X POST 'localhost:8000/orders/7?delay=20s'
$ curl localhost:8000/orders/7
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import tarry

logger = logging.getLogger("uvicorn.error")
worker = tarry.Worker("shop")
orders: dict[int, str] = {}


@worker.task
async def close(number: int) -> None:
    if orders.get(number) == "open":
        orders[number] = "closed"
        logger.info("order %d is closed", number)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with worker:  # handlers that run when the application stops have ten seconds to end: Worker(grace=…)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def place(number: int, delay: str = "30m") -> dict[str, str]:
    added = await close.options(delay=delay, id=f"close-{number}", if_exists="keep").add_async(number)
    orders.setdefault(number, "open")
    return {"due": added.due.isoformat()}


@app.post("/orders/{number}/payment")
async def pay(number: int) -> dict[str, str]:
    orders[number] = "paid"
    await worker.async_client.topic("shop").delete(f"close-{number}")
    return {"state": orders[number]}


@app.get("/orders/{number}")
async def show(number: int) -> dict[str, str]:
    return {"state": orders.get(number, "unknown")}


@app.exception_handler(tarry.BadInput)
async def refused(request: Request, fault: tarry.BadInput) -> JSONResponse:
    return JSONResponse({"error": str(fault)}, status_code=422)
