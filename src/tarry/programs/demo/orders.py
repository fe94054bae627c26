"""The orders: read from examples/orders.jsonl, which a wheel contains beside this module."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tarry.errors import BadInput

_HERE = Path(__file__).resolve().parent
PLACES = (_HERE / "orders.jsonl", _HERE.parents[3] / "examples" / "orders.jsonl")
SECONDS = 10.0
"""The time that the file covers."""


class Order(msgspec.Struct, frozen=True):
    """An order that is closed ``due_s`` after the start unless it is paid ``paid_s`` after it."""

    id: str
    customer: str
    items: int
    amount: str
    currency: str
    due_s: float
    paid_s: float | None = None


def read(count: int | None = None, seconds: float = SECONDS) -> list[Order]:
    """The orders, or ``count`` of them, evenly selected; their times are scaled to ``seconds``."""
    path = next((place for place in PLACES if place.exists()), None)
    if path is None:
        raise BadInput(f"demo: {PLACES[0]} is missing; install tarry again.")
    orders = msgspec.json.Decoder(Order).decode_lines(path.read_bytes())
    if count is not None:
        if not 1 <= count <= len(orders):
            raise BadInput(f"jobs: {count}; there are 1 to {len(orders)} orders.")
        orders = [orders[i * len(orders) // count] for i in range(count)]
    factor = seconds / SECONDS
    return [_scaled(order, factor) for order in orders] if factor != 1 else orders


def _scaled(order: Order, by: float) -> Order:
    paid = None if order.paid_s is None else order.paid_s * by
    return msgspec.structs.replace(order, due_s=order.due_s * by, paid_s=paid)
