"""Writes orders.jsonl: a thousand unpaid orders of a busy evening, scaled to ten seconds. The same seed gives the same file.

    python examples/make_orders.py > examples/orders.jsonl

An order is closed `due_s` after the demo begins, unless it is paid `paid_s` after it.
"""

from __future__ import annotations

import json
import random

ORDERS, SECONDS, SEED = 1000, 10.0, 20_240_229
BURSTS = [(1.2, 0.10), (3.0, 0.25), (4.4, 0.05), (6.5, 0.40), (8.8, 0.15)]
"""Ticket sales open, or a newsletter arrives: many orders at once, with a tail."""
CURRENCIES = {"EUR": (0.55, 1), "USD": (0.25, 1), "CNY": (0.15, 7), "JPY": (0.05, 150)}
PEOPLE = (
    "ada bob chen dora elif femi grete hugo ines jiro kofi lena mira noor olga pau qi rosa sven tariq uma wei yara zoe"
)


def due(rng: random.Random) -> float:
    """The due time: half in bursts, half spread over the evening, a few at the very beginning and end."""
    if rng.random() < 0.5:
        at, width = rng.choice(BURSTS)
        return min(at + rng.expovariate(1 / width), SECONDS)
    return rng.uniform(0, SECONDS)


def paid(rng: random.Random, due_s: float) -> float | None:
    """The time of payment: a third pays in time, most of them early, some at the last moment."""
    if due_s < 0.2 or rng.random() > 0.35:
        return None
    share = rng.uniform(0.98, 0.995) if rng.random() < 0.05 else rng.betavariate(1.5, 3)
    return round(due_s * share, 3)


def amount(rng: random.Random, currency: str) -> str:
    value = min(rng.lognormvariate(3.6, 0.9), 2500) * CURRENCIES[currency][1]
    return f"{value:.0f}" if currency == "JPY" else f"{value:.2f}"


def main() -> None:
    rng = random.Random(SEED)
    dues = sorted(round(due(rng), 3) for _ in range(ORDERS))
    dues[:3] = [0.0] * 3
    dues[-3:] = [SECONDS] * 3
    people = PEOPLE.split()
    for number, due_s in enumerate(dues):
        currency = rng.choices(list(CURRENCIES), [share for share, _ in CURRENCIES.values()])[0]
        order = {
            "id": f"2024-02-29-{number + 1:04}",
            "customer": f"{rng.choice(people)}{rng.randint(1, 60)}@example.org",
            "items": min(1 + int(rng.expovariate(0.7)), 9),
            "amount": amount(rng, currency),
            "currency": currency,
            "due_s": due_s,
        }
        paid_s = paid(rng, due_s)
        if paid_s is not None:
            order["paid_s"] = paid_s
        print(json.dumps(order))


if __name__ == "__main__":
    main()
