"""The examples of docs/reference/integrations.md, a cell for each name. The tests run that page."""

# %% celery.install
from celery import Celery

import tarry
import tarry.celery

app = Celery("shop", broker="memory://", backend="cache+memory://")  # yours has redis:// or amqp://
tarry.celery.install(app)


@app.task  # type: ignore[untyped-decorator]
def close_order(number: int) -> None: ...


sent = close_order.apply_async([7], countdown=1800)  # waits in the topic `celery`
assert tarry.Client().topic("celery").stats().delayed == 1

# %% celery.Control
assert isinstance(app.control, tarry.celery.Control)
assert app.control.reschedule(sent.id, countdown=60)

# %% celery.Control.broadcast
app.control.broadcast("revoke", {"task_id": sent.id})  # what `sent.revoke()` calls
assert tarry.Client().topic("celery").stats().delayed == 0


# %% celery.AMQP
class AMQP(tarry.celery.AMQP):
    """An application that has an `amqp_cls` of its own derives it from this one."""


# %% celery.waiting_tasks
waiting = tarry.celery.waiting_tasks(app)

# %% celery.WaitingTasks
assert isinstance(waiting, tarry.celery.WaitingTasks)
print(waiting.describe())
sent = close_order.apply_async([8], countdown=1800)
assert waiting.reschedule(sent.id, 60)
waiting.revoke([sent.id])

# %% celery.Relay
import asyncio


async def publish_for_a_moment() -> int:
    relay = tarry.celery.Relay(app)  # `tarry celery-relay shop:app` runs one
    asyncio.get_running_loop().call_later(0.1, relay.stop)
    await relay.run()
    return relay.published


assert asyncio.run(publish_for_a_moment()) == 0  # nothing was due

# %% django.worker
import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["tarry.django"], TARRY={"NAME": "shop"})
django.setup()

from tarry.django import worker  # in jobs.py of an app


@worker.task
def close(order: int) -> None: ...


close.options(delay="30m").add(7)

# %% django.client
from tarry.django import client

client().topic("letters").add("Dear Ada")

# %% django.async_client
from tarry.django import async_client


async def view() -> None:
    await async_client().topic("letters").add("Dear Bob")


asyncio.run(view())

# %% otel.instrument
import tarry.otel

traced = tarry.Worker("traced")
tarry.otel.instrument(traced)  # or a registry of it

# %% otel.headers
client().topic("reports").add({"month": 5}, headers=tarry.otel.headers({"tenant": "7"}))
