"""The tasks; Django imports the ``jobs.py`` of every app when it starts."""

from __future__ import annotations

from shop.models import Order
from tarry.django import worker


@worker.task
def close(order_id: int) -> None:
    Order.objects.filter(pk=order_id, state="open").update(state="closed")


@worker.task
async def remind(order_id: int) -> None:
    await Order.objects.filter(pk=order_id, state="open").aupdate(state="reminded")
