"""The broker of the comparison with Celery."""

from __future__ import annotations

from pathlib import Path

import pytest
from amqp import Connection

import rabbitmqs
from until import until


@pytest.mark.long
def test_the_broker_s_log_says_which_connections_broke(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "rabbitmq.log"
    with rabbitmqs.server() as node:
        assert node.keep_log(kept) == 0
        connection = Connection(f"127.0.0.1:{node.port}")
        connection.connect()
        connection.collect()  # closes the socket without a word of AMQP
        until(lambda: node.keep_log(kept) == 1)
    assert "closing AMQP connection" in kept.read_text()
