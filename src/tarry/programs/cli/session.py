"""One call of the command line: its options, its client, its output."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tarry.internal import log_formatter, one_line
from tarry.programs.cli.process import gc_paused, write_message

if TYPE_CHECKING:
    from tarry import Client, Topic


PATIENCE, WAITING = "3s", "10s"
"""How long a server that does not answer is retried: by default, and by commands that wait or run on."""


class CommandSession:
    """Given to every command. The client is made when it is first used."""

    def __init__(self, url: str | None, namespace: str | None, json: bool, patience: str | None = None) -> None:
        self.url = url
        self.namespace_option = namespace or None
        self.given_namespace = namespace or os.environ.get("TARRY_NAMESPACE") or None
        self.namespace = self.given_namespace or "default"
        self.json = json
        self._patience = patience
        self.usual_patience = PATIENCE
        self._client: Client | None = None

    @property
    def patience(self) -> str:
        """How long a server that does not answer is retried."""
        return self._patience if self._patience is not None else self.usual_patience

    @property
    def client(self) -> Client:
        if self._client is None:
            with gc_paused(), _without_telemetry():
                from tarry import Client
                from tarry.errors import BadInput

            try:
                self._client = Client(self.url, namespace=self.namespace, patience=self.patience)
            except BadInput as fault:
                if self.namespace_option is None:
                    fault.args = (re.sub("^namespace:", "TARRY_NAMESPACE:", str(fault)),)
                raise
            _log_to_stderr(as_json=self.json)
        return self._client

    def topic(self, name: str, partitions: int | None = None) -> Topic[Any]:
        return self.client.topic(name, partitions=partitions)

    def known_topic(self, name: str) -> Topic[Any]:
        """A topic to show or to empty. Raises ``UnknownTopic`` where its own keys prove that nothing was ever there or configured."""
        from tarry.errors import UnknownTopic

        topic = self.topic(name)
        if not self.is_known(topic):
            raise UnknownTopic(topic=name)
        return topic

    def is_known(self, topic: Topic[Any]) -> bool:
        """Whether anything was ever added to a topic, or configured for it."""
        from tarry.internal import perform, perform_view, server_verbs

        known = server_verbs(topic).is_known()
        return perform_view(topic, known) or perform(topic, known)  # a replica may not have it yet

    def print_answer(self, answer: Any, *lines: str) -> None:
        """Prints an answer to stdout: as one line of JSON, or as lines of text. ``answer`` is data, or a function that makes them,
        which is called for JSON only. Nothing in a line controls a terminal, or ends it."""
        print(dumps(answer() if callable(answer) else answer) if self.json else "\n".join(map(one_line, lines)))

    def print_note(self, text: str) -> None:
        """Prints a message to stderr, with ``--json`` as JSON."""
        write_message(text, self.json, level="info", message=text)

    def discard_stdout(self) -> None:
        """The reader of a pipe has exited (``| head``): discards further output, also that at the exit."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


@contextmanager
def _without_telemetry() -> Generator[None]:
    """Imports in this block do not find OpenTelemetry. redis-py imports its SDK where it is installed, which takes as long as
    the rest of redis-py, for metrics that only an application switches on. No application runs in a process that makes this client.
    """
    hidden = [name for name in ("opentelemetry.metrics", "opentelemetry.sdk") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: there is no such module
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def dumps(answer: Any) -> str:
    import msgspec

    return one_line(msgspec.json.encode(answer).decode(), as_json=True)


def _log_to_stderr(*, as_json: bool) -> None:
    """Sends the library's logs to stderr. A note about the embedded server appears only when this call has started it; a note
    that the server does not answer appears at once, and once."""
    logger = logging.getLogger("tarry")
    handler, patience_handler = logging.StreamHandler(), logging.StreamHandler()
    format = "json" if as_json else "text"
    handler.setFormatter(log_formatter(format, "%(message)s"))
    patience_handler.setFormatter(log_formatter(format, "%(message)s (--patience)"))
    level = logging.getLevelNamesMapping().get(os.environ.get("TARRY_LOG", "").upper())
    handler.setLevel(level or logging.WARNING)
    if level is None:
        patience = logging.getLogger("tarry.patience")
        patience.setLevel(logging.INFO)
        patience.propagate = False
        patience_handler.addFilter(lambda line: line.levelno == logging.INFO)
        patience.addHandler(patience_handler)
    handler.addFilter(lambda line: not _tells_of_another_start(line))
    logger.addHandler(handler)
    logger.propagate = False


def _tells_of_another_start(line: logging.LogRecord) -> bool:
    """Whether it is the note about an embedded server that was there already."""
    return not getattr(line, "tarry", {}).get("started", True)
