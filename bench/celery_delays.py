"""Celery's countdown, plain and with tarry, while workers are killed: `python -m bench.celery_delays`.

2,000 tasks with countdowns of 1 s to 4 minutes; prefork workers and such with threads, of which one is killed with -9 at a random
moment of every 45 s, when another one is ready. Redis with a visibility timeout of 60 s; RabbitMQ with classic and with quorum
queues, if it is installed. All six at the same time, for seven minutes. Both sides as Celery's documentation advises for tasks
that must not be lost: ``acks_late`` and ``reject_on_worker_lost``, and with RabbitMQ ``confirm_publish`` (DELAYS_CONFIRM= leaves
it out). DELAYS_KINDS names what is compared: `plain`; `tarry`, with relays in the workers; `relay`, with one `tarry celery-relay`
beside them, which is not killed; `sent`, which is Celery alone with each task sent when it is due. The log's lines on a task that
did not run are printed.

Then the memory of a worker while 100,000 tasks wait, which are published in bulk: six workers at the same time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.transport.native_delayed_delivery import level_name

import tarry.celery
from bench import rabbitmq
from bench.zookeeper import free_port
from tarry.connections.embedded.server_process import launch

TASKS, LONGEST_S, KILL_EVERY_S, VISIBILITY_S, WAITING = (int(os.environ.get(f"DELAYS_{name}", usual)) for name, usual in (
    ("TASKS", 2000), ("LONGEST", 240), ("KILL_EVERY", 45), ("VISIBILITY", 60), ("WAITING", 100_000)
))  # fmt: skip
LOST_SHOWN = 20
BROKER_LOG = Path(__file__).parents[1] / "build" / "celery_delays" / "rabbitmq.log"
TAKEN_WITHIN_S = 1200
"""On a classic queue a worker takes a few messages a second: its prefetch count grows by one for each."""
POOLS = ("prefork", "threads")
WITH_TARRY = ("tarry", "relay")
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["celery.apps.worker", "celery.bin.worker", "kombu.transport.redis", "tarry.celery"])
Place = dict[str, str]
"""What a worker has to know, as environment variables."""


def make_app(place: Place) -> Celery:
    name = f"{place['DELAYS_BROKER']}-{place['DELAYS_KIND']}"
    app = Celery("delays", broker=place["DELAYS_URL"], set_as_current=False)
    app.conf.update(
        task_default_queue=name,
        control_exchange=name,
        event_exchange=f"{name}-events",
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        broker_connection_retry_on_startup=True,
    )
    if place["DELAYS_BROKER"] == "redis":
        app.conf.broker_transport_options = {"visibility_timeout": int(place["DELAYS_VISIBILITY"])}
    elif place["DELAYS_CONFIRM"]:
        app.conf.broker_transport_options = {"confirm_publish": True}
    if place["DELAYS_BROKER"] == "quorum":
        app.conf.task_queues = [
            Queue(name, Exchange(name, type="topic"), name, queue_arguments={"x-queue-type": "quorum"})
        ]
    if place["DELAYS_KIND"] in WITH_TARRY:
        tarry.celery.install(app, place["DELAYS_TARRY"], relay=place["DELAYS_KIND"] == "tarry")

    @app.task(name="delays.run", shared=False)
    def run(number: int, due: float) -> None:
        with Path(place["DELAYS_RUNS"]).open("a") as file:
            file.write(json.dumps([number, due, time.time()]) + "\n")

    return app


@contextmanager
def places(visibility_s: int, kinds: str = "plain tarry") -> Iterator[list[Place]]:
    """Each broker, plain and with tarry: a Redis each, and one RabbitMQ."""
    with ExitStack() as stack:

        def new_folder() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp")))

        def new_redis() -> str:
            folder = new_folder()
            redis = launch(folder, socket=folder / "s", options=("--appendonly", "yes"))
            stack.callback(redis.stop)
            return redis.url

        urls = dict.fromkeys(os.environ.get("DELAYS_BROKERS", "redis classic quorum").split(), "")
        if urls.keys() - {"redis"}:
            if lacking := rabbitmq.missing():
                print(f"Without RabbitMQ: needs {lacking}", file=sys.stderr)
                urls = {"redis": ""}
            else:
                node = rabbitmq.RabbitMQ(new_folder(), [free_port() for _ in range(3)])
                stack.callback(tell_broker, node)
                stack.callback(node.stop)
                node.start()
                urls.update(dict.fromkeys(urls.keys() - {"redis"}, node.url))
        found: list[Place] = []
        for broker, url in urls.items():
            for kind in os.environ.get("DELAYS_KINDS", kinds).split():
                redis = new_redis()
                found.append({
                    "DELAYS_BROKER": broker,
                    "DELAYS_KIND": kind,
                    "DELAYS_URL": url or f"redis+socket://{redis.removeprefix('unix://')}",
                    "DELAYS_TARRY": redis,
                    "DELAYS_RUNS": str(new_folder() / "runs"),
                    "DELAYS_VISIBILITY": str(visibility_s),
                    "DELAYS_CONFIRM": os.environ.get("DELAYS_CONFIRM", "1"),
                })  # fmt: skip
        for place in found:
            log_of(place).touch()
        yield found


def tell_broker(node: rabbitmq.RabbitMQ) -> None:
    """Keeps RabbitMQ's log: it says which connections broke."""
    broken = node.keep_log(BROKER_LOG)
    print(f"RabbitMQ's log, with {broken} broken connections: {BROKER_LOG}", file=sys.stderr)


def under_kills(place: Place) -> dict[str, Any]:
    app, draw = make_app(place), random.Random(7)
    workers = [start(place, pool) for pool in POOLS]
    relay = start_relay(place) if place["DELAYS_KIND"] == "relay" else None
    wait_until_ready(place, len(workers))
    begin = time.time()
    dues = sorted(begin + draw.uniform(1, LONGEST_S) for _ in range(TASKS))
    sender = threading.Thread(target=send_all, args=(app, place["DELAYS_KIND"], dues))
    sender.start()
    kills = 0
    for slot in range((LONGEST_S - 1) // KILL_EVERY_S):
        workers.append(start(place, POOLS[slot % len(POOLS)]))
        wait_until_ready(place, len(POOLS) + slot + 1)
        sleep_until(begin + (slot + draw.random()) * KILL_EVERY_S)
        if time.time() < begin + LONGEST_S:  # later, a worker has nothing to lose
            end(workers.pop(0))
            kills += 1
    sender.join()
    sleep_until(begin + LONGEST_S + 2 * VISIBILITY_S)
    for worker in workers:
        end(worker)
    if relay is not None:
        end(relay)
    left = left_in_broker(app, place)
    if place["DELAYS_KIND"] in WITH_TARRY:
        stats = tarry.celery.waiting_tasks(app).topic.stats()
        left += stats.delayed + stats.ready + stats.reserved
    app.close()
    runs = [json.loads(line) for line in Path(place["DELAYS_RUNS"]).read_text().splitlines()]
    times, first = Counter(number for number, _, _ in runs), {}
    lost = [number for number in range(TASKS) if number not in times]
    if lost:
        tell_lost(app, place, lost)
    for number, due, at in runs:
        first.setdefault(number, at - due)
    late = sorted(first.values())
    return {
        "workers killed": kills,
        "runs": len(runs),
        "run twice or more": sum(count > 1 for count in times.values()),
        "did not run": len(lost),
        "messages left": left,
        "early": sum(at < due for _, due, at in runs),
        "late p50, s": round(late[len(late) // 2], 3),
        "late p99, s": round(late[len(late) * 99 // 100], 3),
        "late max, s": round(late[-1], 3),
    }


def send_all(app: Celery, kind: str, dues: list[float]) -> None:
    run: Any = app.tasks["delays.run"]
    for number, due in enumerate(dues):
        if kind == "sent":
            sleep_until(due)
        options = {} if kind == "sent" else {"countdown": max(due - time.time(), 0)}
        run.apply_async([number, due], task_id=task_id_of(number), **options)


def sleep_until(moment: float) -> None:
    time.sleep(max(moment - time.time(), 0))


def task_id_of(number: int) -> str:
    return f"task-{number:05d}-x"  # no other's beginning


def tell_lost(app: Celery, place: Place, lost: list[int]) -> None:
    """What the workers' log says of tasks that did not run: whether they were received, and what came of it."""
    log = log_of(place).read_text(errors="replace").splitlines()
    for number in lost[:LOST_SHOWN]:
        lines = [line for line in log if task_id_of(number) in line]
        print(f"{app.conf.task_default_queue}: {number} did not run: {lines or 'never received'}", file=sys.stderr)
    errors = [line for line in log if "ERROR" in line or "CRITICAL" in line]
    print(*errors[:LOST_SHOWN], sep="\n", file=sys.stderr)


def memory(place: Place) -> dict[str, Any]:
    app = make_app(place)
    worker = start(place, "prefork")
    wait_until_ready(place, 1)
    empty = resident_mb(worker)
    if place["DELAYS_KIND"] in WITH_TARRY:
        fill_topic(app)
    else:
        fill_queue(app)
    until = time.monotonic() + TAKEN_WITHIN_S
    while left_in_queue(app, place) and time.monotonic() < until:
        time.sleep(1)
    wait_until_idle(worker)
    full = resident_mb(worker)
    received = log_of(place).read_text().count(" received")
    end(worker)
    app.close()
    return {
        "waiting": WAITING,
        "in the worker's hands": received,
        "worker's memory before, MB": empty,
        "worker's memory, MB": full,
    }


def fill_queue(app: Celery) -> None:
    """Publishes one task so many times, each with an id of its own, without what Celery does for each call."""

    class Copies:
        def __init__(self, producer: Any) -> None:
            self._producer = producer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def publish(self, body: Any, **options: Any) -> None:
            for number in range(WAITING):
                self._producer.publish(body, **{**options, "headers": {**options["headers"], "id": task_id_of(number)}})
                options["declare"] = ()

    run: Any = app.tasks["delays.run"]
    with app.producer_or_acquire() as producer:
        run.apply_async([0, 0], countdown=86_400, producer=Copies(producer))


def fill_topic(app: Celery) -> None:
    """Adds the job of one task so many times."""
    run: Any = app.tasks["delays.run"]
    topic = tarry.celery.waiting_tasks(app).topic
    first = topic.get(run.apply_async([0, 0], countdown=86_400, task_id=task_id_of(0)).id)
    assert first is not None
    for begin in range(1, WAITING, 1000):
        jobs = [tarry.NewJob(first.body, id=task_id_of(number)) for number in range(begin, min(begin + 1000, WAITING))]
        topic.add_many(jobs, delay=86_400, max_attempts=None)


def left_in_broker(app: Celery, place: Place) -> int:
    """The messages that no worker has acknowledged, after the last one was killed."""
    name = app.conf.task_default_queue
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        if place["DELAYS_BROKER"] == "redis":
            return int(channel.client.llen(name)) + int(channel.client.hlen("unacked"))
        names = [name]
        if place["DELAYS_BROKER"] == "quorum":
            names += [level_name(level) for level in range(28)]
        time.sleep(10)  # until RabbitMQ has noticed that the workers are gone
        return sum(channel.queue_declare(each, passive=True).message_count for each in names)


def left_in_queue(app: Celery, place: Place) -> int:
    """The messages that no worker has taken."""
    name = app.conf.task_default_queue
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        if place["DELAYS_BROKER"] == "redis":
            return int(channel.client.llen(name))
        return int(channel.queue_declare(name, passive=True).message_count)


def start(place: Place, pool: str) -> BaseProcess:
    """Forked from a process that has imported everything: on a busy machine the imports take longer than a worker lives here."""
    worker = FORKED.Process(target=work, args=(place, pool))
    worker.start()
    return worker


def work(place: Place, pool: str) -> None:
    os.setsid()
    with log_of(place).open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    words = ["worker", "-c", "2", "--pool", pool, "--loglevel", "INFO"]
    words += ["-n", f"{os.getpid()}@here", "--without-gossip", "--without-mingle"]
    make_app(place).worker_main(words)


def start_relay(place: Place) -> subprocess.Popen[bytes]:
    """One beside the workers, which is not killed."""
    words = [sys.executable, "-m", "tarry", "celery-relay", "bench.celery_delays:relay_app"]
    with log_of(place).open("ab") as log:
        return subprocess.Popen(words, env={**os.environ, **place}, stdout=log, stderr=log, start_new_session=True)


def log_of(place: Place) -> Path:
    return Path(place["DELAYS_RUNS"]).with_name("log")


def end(process: BaseProcess | subprocess.Popen[bytes]) -> None:
    """A worker or a relay, with its children."""
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGKILL)
    if isinstance(process, BaseProcess):
        process.join()
    else:
        process.wait()


def wait_until_ready(place: Place, workers: int) -> None:
    """So many have been ready since the beginning."""
    while log_of(place).read_bytes().count(b"@here ready.") < workers:
        time.sleep(0.1)


def wait_until_idle(worker: BaseProcess) -> None:
    """Until it has taken whatever it takes: it uses less than 5% of a core for 5 s."""
    while True:
        before = cpu_s(worker)
        time.sleep(5)
        if cpu_s(worker) - before < 0.25:
            return


def cpu_s(worker: BaseProcess) -> float:
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(worker: BaseProcess) -> int:
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def show(measure: Callable[[Place], dict[str, Any]], visibility_s: int) -> None:
    with places(visibility_s) as all_places, ThreadPoolExecutor(len(all_places)) as side_by_side:
        found = list(side_by_side.map(measure, all_places))
    print("| | " + " | ".join(f"{place['DELAYS_BROKER']}, {place['DELAYS_KIND']}" for place in all_places) + " |")
    print("|---" * (len(found) + 1) + "|")
    for row in found[0]:
        print(f"| {row} | " + " | ".join(f"{column[row]:,}" for column in found) + " |", flush=True)


def main() -> None:
    which = sys.argv[1:] or ["kills", "memory"]
    if "kills" in which:
        show(under_kills, VISIBILITY_S)
    if "memory" in which:
        show(memory, 3600)  # a shorter one would deliver them again and again while the worker is filled


if __name__ == "__main__":
    main()
elif "DELAYS_KIND" in os.environ:
    relay_app = make_app({key: value for key, value in os.environ.items() if key.startswith("DELAYS_")})
