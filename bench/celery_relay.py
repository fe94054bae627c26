"""How fast one `tarry celery-relay` publishes, at each broker in turn: `python -m bench.celery_relay`.

10,000 tasks that come due at one moment: from then until the last of them is with the broker. Then 2,000 tasks, 100 a second: how much
later than its time each one reaches a consumer of the queue. The queue of RabbitMQ is durable, and a message is confirmed when it is on the disk.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

from celery import Celery
from kombu import Consumer

import tarry.celery
from bench.celery_delays import Place, end, make_app, places, start_relay, task_id_of
from tarry.celery.delayed_messages import ETA

BURST, STEADY, EACH_SECOND = 10_000, 2_000, 100
AHEAD_S = 10
"""Until the first is due: long enough to send all of them before."""


def burst(app: Celery) -> float:
    """Messages a second; one was published before."""
    run: Any = app.tasks["delays.run"]
    topic = tarry.celery.waiting_tasks(app).topic
    due = time.time() + AHEAD_S
    first = topic.get(run.apply_async([0, 0], countdown=AHEAD_S, task_id=task_id_of(0)).id)
    assert first is not None
    for begin in range(1, BURST, 1000):
        jobs = [tarry.NewJob(first.body, id=task_id_of(number)) for number in range(begin, min(begin + 1000, BURST))]
        topic.add_many(jobs, delay=due - time.time(), max_attempts=None)
    assert time.time() < due, "the tasks were sent too late"
    while topic.stats().finished <= BURST:
        time.sleep(0.01)
    return BURST / (time.time() - due)


def steady(app: Celery) -> list[float]:
    """How late each message came, in order."""
    late: list[float] = []

    def note(_: Any, message: Any) -> None:
        due = message.headers[ETA]
        late.append(time.time() - (due if isinstance(due, datetime) else datetime.fromisoformat(due)).timestamp())

    run: Any = app.tasks["delays.run"]
    begin = datetime.now(timezone.utc) + timedelta(seconds=AHEAD_S)
    for number in range(STEADY):
        run.apply_async([0, 0], eta=begin + timedelta(seconds=number / EACH_SECOND))
    assert datetime.now(timezone.utc) < begin, "the tasks were sent too late"
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        queue = app.amqp.queues[app.conf.task_default_queue](channel)
        queue.purge()  # those of the burst
        with Consumer(channel, [queue], callbacks=[note], no_ack=True, accept=["json"]):
            while len(late) < STEADY:
                connection.drain_events(timeout=60)
    return sorted(late)


def measure(place: Place) -> None:
    app = make_app(place)
    relay = start_relay(place)
    try:
        run: Any = app.tasks["delays.run"]
        run.apply_async([0, 0], countdown=0.01)  # the queue is declared, the relay runs
        topic = tarry.celery.waiting_tasks(app).topic
        while not topic.stats().finished:
            time.sleep(0.01)
        rate, late = burst(app), steady(app)
    finally:
        end(relay)
        app.close()
    p50, p99 = (late[STEADY * percent // 100] * 1000 for percent in (50, 99))
    print(
        f"| {place['DELAYS_BROKER']} | {rate:,.0f} | {p50:.0f} ms | {p99:.0f} ms | {late[-1] * 1000:.0f} ms |",
        flush=True,
    )


def main() -> None:
    print(
        f"| broker | messages a second, {BURST:,} at once | late p50, {EACH_SECOND} a second | p99 | most |\n|---|---|---|---|---|"
    )
    with places(3600, kinds="relay") as found:
        for place in found:
            measure(place)


if __name__ == "__main__":
    main()
