"""What is acknowledged is not lost: a killed service, a fail-over, and many receivers of many messages that are due at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from server_groups import sentinels
from service.running_service import RunningService, serve
from service.test_process import Process, process
from sqs.conftest import boto, mounts
from sqs.test_operations import receive
from tarry.clients.awaited.client import AsyncClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.service.settings import ServiceSettings
from tarry.verbs.codecs import JSON
from until import LONGEST_S, until
from warm import WarmTarry

GAP_S = 0.02
"""Between two messages of a sender: without it four threads compute for as long as a service is awaited."""
FAILURES = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)


class Traffic:
    """Senders and receivers, which go on whatever happens to the service."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        """The URL of the queue; it changes with the service."""
        self.sent = list[str]()
        """What SendMessage has acknowledged."""
        self.received = Counter[str]()
        """What was received. Its delete may be done by a service that is killed before it answers, so that it does not come again."""
        self.sending = self.receiving = True

    @property
    def missing(self) -> set[str]:
        return set(self.sent) - self.received.keys()

    def send(self, name: str) -> None:
        number = 0
        with self._clients() as client:
            while self.sending:
                number += 1
                with suppress(*FAILURES):
                    client().send_message(QueueUrl=self.queue, MessageBody=f"{name}-{number}")
                    self.sent.append(f"{name}-{number}")
                time.sleep(GAP_S)

    def receive(self) -> None:
        asked = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 2, "WaitTimeSeconds": 1}
        with self._clients() as client:
            while self.receiving:
                with suppress(*FAILURES):
                    for message in receive(client(), self.queue, **asked):
                        self.received[message["Body"]] += 1
                        client().delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])

    @contextmanager
    def _clients(self) -> Iterator[Callable[[], Any]]:
        """The client at the service that has the queue now, one for each service: to make one takes as long as many messages."""
        with ExitStack() as stack:
            made = cache(lambda url: stack.enter_context(closing(boto(url))))
            yield lambda: made(self.queue.partition("/sqs/")[0])


@contextmanager
def traffic(queue: str) -> Iterator[Traffic]:
    """Two senders and two receivers; at the end everything that was acknowledged has been received."""
    made = Traffic(queue)
    threads = [threading.Thread(target=made.send, args=(name,)) for name in ("a", "b")]
    threads += [threading.Thread(target=made.receive) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield made
        made.sending = False
        until(lambda: not any(thread.is_alive() for thread in threads[:2]), "the senders' end")
        until(lambda: not made.missing, "what was acknowledged")
    finally:
        made.sending = made.receiving = False
        for thread in threads:
            thread.join()


@pytest.mark.slow
def test_a_killed_service_loses_nothing_that_it_has_acknowledged(
    own_server: Callable[..., ServerProcess], tmp_path: Path, tarry_command: WarmTarry
) -> None:
    url, words = own_server().url, ("--namespace", "killed", "--dialect", "sqs")

    def queue_at(service: Process) -> str:
        made: str = boto(service.url).create_queue(QueueName="orders")["QueueUrl"]
        return made

    with (
        process(url, tmp_path, *words, warm=tarry_command) as first,
        process(url, tmp_path, *words, "--drain", "0s", warm=tarry_command) as second,
    ):
        later = queue_at(second)
        with traffic(queue_at(first)) as all_of_it:
            until(lambda: sum(all_of_it.received.values()) > 20, "the first messages")
            first.child.kill()  # in the middle of whatever it does
            first.ended()
            all_of_it.queue, before = later, len(all_of_it.sent)
            until(lambda: len(all_of_it.sent) > before + 20, "messages by the second service")


@pytest.mark.otherserver
@pytest.mark.slow
def test_a_fail_over_loses_nothing_that_was_acknowledged(namespace: str) -> None:
    safe = ("--min-replicas-max-lag", "2", "--min-replicas-to-write", "1")
    settings = ServiceSettings(namespaces=(namespace,))
    with (
        sentinels(options=safe, replicas=1) as group,
        serve(lambda name: AsyncClient(group.url, namespace=name), settings, mounts()) as running_service,
        traffic(boto(running_service.url).create_queue(QueueName="orders")["QueueUrl"]) as all_of_it,
    ):
        until(lambda: sum(all_of_it.received.values()) > 20, "the first messages")
        with group.switching():
            pass
        before = len(all_of_it.sent)
        until(lambda: len(all_of_it.sent) > before + 20, "messages at the new master")


@pytest.mark.slow
@pytest.mark.parametrize("many", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_that_are_due_at_once_are_received_once_each(
    sqs: Any, queue: str, running_service: RunningService, topic: Callable[[str], Any], many: int
) -> None:
    bodies = [(b'"%d"' % number, JSON) for number in range(many)]
    for begin in range(0, many, 1000):
        running_service.run(topic("orders").add_many(bodies[begin : begin + 1000], max_attempts=None))

    begin_together = threading.Barrier(4)

    def take_all(_: int) -> list[str]:
        client, found = boto(running_service.url), list[str]()
        begin_together.wait(LONGEST_S)
        while messages := receive(client, queue, MaxNumberOfMessages=10, VisibilityTimeout=3600):
            found += [one["Body"] for one in messages]
            entries = [{"Id": one["Body"], "ReceiptHandle": one["ReceiptHandle"]} for one in messages]
            assert len(client.delete_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == len(messages)
        client.close()
        return found

    with ThreadPoolExecutor(4) as receivers:
        by_receiver = list(receivers.map(take_all, range(4)))
    assert Counter(body for found in by_receiver for body in found) == Counter(str(number) for number in range(many))
    assert all(by_receiver)
    assert running_service.run(topic("orders").stats()).finished == many
