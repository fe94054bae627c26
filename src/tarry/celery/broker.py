"""A relay's connection to the broker: hands over messages, and tells which of them the broker has.

    send ──▶ under way ──drain──▶ outcomes     RabbitMQ: a message is under way until the broker has confirmed or refused it
    send ───────────────────────▶ outcomes     any other broker has a message when ``send`` returns

``confirm_publish``, kombu's own option, waits for each message before it sends the next: a round trip and a write to the broker's
disk for each. Here the channel is in confirm mode, and ``drain`` reads the confirmations, which come in the order of delivery tags.

Blocking, and for one thread. A relay has a connection of its own: a lock of Celery's pools that its thread holds while the worker
forks would stay locked in the child. After an error of ``send`` or ``drain`` only ``connect_again`` is of use: it is not known what
the broker has of the messages that were under way.
"""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import Any

WRITE_S = 5.0
"""A broker that reads nothing within this time is given up; half a message is none."""
log = logging.getLogger("tarry.celery")


class BrokerAway(ConnectionError):
    """The broker cannot be reached at this moment."""


class MessageNacked(Exception):
    """The broker has refused a message."""


class Broker:
    """The broker of one app, for one relay."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._connection: Any = None
        self._producer: Any = None
        self._confirms = False
        self._last_tag = 0
        self._declared: set[str] = set()
        self._under_way: dict[int, str] = {}
        self._outcomes: dict[str, Exception | None] = {}

    @property
    def confirms(self) -> bool:
        """Whether it confirms messages later, so that many may be under way."""
        return self._confirms

    @property
    def under_way(self) -> int:
        """The messages of which the broker has said nothing yet."""
        return len(self._under_way)

    def connect(self) -> None:
        """Connects, unless it is connected. Raises ``BrokerAway``."""
        if self._connection is not None:
            return
        connection = self._app.connection_for_write()
        self._confirms = connection.transport.driver_type == "amqp"
        if self._confirms:  # waits for confirmations itself
            connection = self._app.connection_for_write(transport_options={"confirm_publish": False})
        self._connection = connection
        try:
            connection.ensure_connection(max_retries=1, interval_start=0)
            channel = connection.default_channel
            if self._confirms:
                channel.confirm_select()
                channel.events["basic_ack"].add(self._acknowledged)
                channel.events["basic_nack"].add(self._refused)
        except Exception as fault:
            self.disconnect()
            raise BrokerAway(f"the broker {connection.as_uri()}: {fault}") from fault
        self._producer = self._app.amqp.Producer(channel, auto_declare=False)

    def connect_again(self) -> None:
        """By a new connection. Raises ``BrokerAway``."""
        self.disconnect()
        self.connect()

    def disconnect(self) -> None:
        """At once, without a farewell: a broker that reads nothing would keep a relay waiting for its answer."""
        self._leave("collect")

    def close(self) -> None:
        """Takes leave of a broker that has all it was given."""
        self._leave("collect" if self._under_way else "release")

    def _leave(self, how: str) -> None:
        connection, self._connection = self._connection, None
        self._last_tag = 0
        self._declared.clear()
        self._under_way.clear()
        self._outcomes.clear()
        if connection is not None:
            try:
                getattr(connection, how)()
            except Exception:  # it may be broken in any way, and is not needed any more
                log.debug("tarry relay: while a connection was closed", exc_info=True)

    def send(self, id: str, body: Any, options: dict[str, Any]) -> None:
        """Hands over one message, with the options of kombu's ``publish``. Its queues are declared once by each connection: kombu,
        which remembers them too, copies them first."""
        queues = [queue for queue in options["declare"] if queue.name not in self._declared]
        options = {**options, "declare": queues}
        if self._confirms:
            self._producer.publish(body, **{"timeout": WRITE_S, **options})
            self._last_tag += 1  # afterwards: the broker has counted what was written, and nothing else
            self._under_way[self._last_tag] = id
        else:
            self._producer.publish(body, **options)
            self._outcomes[id] = None
        self._declared.update(queue.name for queue in queues if queue.can_cache_declaration)

    def drain(self, seconds: float) -> None:
        """Waits so long for something from the broker, and reads it."""
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            self._connection.heartbeat_check()  # raises if the broker has been silent for too long

    def take_outcomes(self) -> dict[str, Exception | None]:
        """The messages that were settled since the last call: ``None``, or why the broker has refused it."""
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    def _acknowledged(self, tag: int, multiple: bool) -> None:
        self._end(tag, multiple, None)

    def _refused(self, tag: int, multiple: bool) -> None:
        self._end(tag, multiple, MessageNacked("the broker does not take it, as for a queue that is full"))

    def _end(self, tag: int, multiple: bool, fault: Exception | None) -> None:
        tags = list(takewhile(tag.__ge__, self._under_way)) if multiple else [tag]
        for each in tags:
            self._outcomes[self._under_way.pop(each)] = fault
