"""What the command line asks, draws and reads in a terminal; and that a pipe is spared all of it."""

from __future__ import annotations

import pytest

import tarry
from programs.terminal import Cli, Terminal


@pytest.fixture
def place(valkey_url: str, namespace: str) -> dict[str, str]:
    return {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace}


@pytest.fixture
def orders(client: tarry.Client) -> tarry.Topic[object]:
    topic = client.topic("orders")
    topic.add_many([1, 2, 3], delay="1h")
    topic.add(4)
    return topic


@pytest.mark.parametrize(
    ("words", "question", "left"),
    [
        ("purge orders", "Delete 4 jobs of orders?", 0),
        ("purge orders --state delayed", "Delete 3 delayed jobs of orders?", 1),
        ("purge orders --limit 2", "Delete 2 jobs of orders?", 2),
        ("delete orders --state delayed", "Delete 3 delayed jobs of orders?", 1),
        ("delete orders --state ready", "Delete 1 ready job of orders?", 3),
    ],
)
def test_it_asks_before_it_deletes_many(
    orders: tarry.Topic[object], place: dict[str, str], words: str, question: str, left: int
) -> None:
    with Terminal(*words.split(), place=place) as terminal:
        terminal.read_until(lambda seen: f"{question} [y/N]" in seen)
        terminal.type("n\n")
        assert terminal.end() == 1
    assert count(orders) == 4
    with Terminal(*words.split(), place=place) as terminal:
        terminal.read_until(lambda seen: question in seen)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert count(orders) == left


@pytest.mark.parametrize("words", ["purge orders", "delete orders --state delayed", "purge orders --limit 1 --json"])
def test_without_a_terminal_it_needs_yes(orders: tarry.Topic[object], cli: Cli, words: str) -> None:
    done = cli(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes: it deletes jobs, and there is no terminal to ask; give --yes, or --dry-run" in done.stderr
    assert cli(*words.split(), "--dry-run").returncode == 0
    assert count(orders) == 4
    assert cli(*words.split(), "--yes").returncode == 0
    assert count(orders) < 4


def test_one_job_is_deleted_without_a_question(orders: tarry.Topic[object], cli: Cli) -> None:
    orders.add(5, id="five")
    assert cli("delete", "orders", "five").returncode == 0


def count(topic: tarry.Topic[object]) -> int:
    now = topic.stats()
    return now.delayed + now.ready + now.reserved + now.dead
