"""A program in another language runs the vectors by its own packing, and works beside Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import servers
from doc_pages import ROOT
from tarry import Client
from until import LONGEST_S
from vectors import calls

PROGRAM = ROOT / "examples" / "node" / "tarry.mjs"
Run = Callable[..., str]


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server of its own, which is empty."""
    with servers.server(servers.valkey_binary()) as running:
        yield running.url


@pytest.fixture
def run(url: str) -> Run:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs nodejs (apt install nodejs)")

    def act(verb: str, *words: str) -> str:
        command = [node, str(PROGRAM), verb, url, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        assert done.stderr == ""
        return done.stdout.strip()

    return act


def test_every_vector_holds(run: Run) -> None:
    assert run("vectors") == f"{len(calls.written())} vectors hold"


@pytest.mark.parametrize(
    "options",
    [{}, {"id": "own"}, {"ttr": 7, "max_attempts": 3, "headers": {"a": "b"}, "max_lateness": 3600, "priority": 2}],
    ids=str,
)
def test_a_job_that_python_adds_is_popped_and_finished(run: Run, url: str, options: dict[str, Any]) -> None:
    with Client(url) as client:
        topic = client.topic("t")
        added = topic.add({"to": "Åda"}, **options)
        job = json.loads(run("pop", "t"))
        assert (job["id"], job["body"]) == (added.id, {"to": "Åda"})
        assert topic.get(added.id).state == "reserved"
        assert run("finish", "t", job["id"], str(job["receipt"] - 1)) == "again 1"
        assert run("finish", "t", job["id"], str(job["receipt"])) == "1"
        assert run("finish", "t", job["id"], str(job["receipt"])) == "gone"
        assert run("pop", "t") == "null"
        assert topic.stats().finished == 1


def test_what_scripts_have_written_before_a_body_is_no_part_of_it(run: Run, url: str) -> None:
    with Client(url) as client:
        topic = client.topic("t")
        for _ in range(2):
            topic.add({"to": "Åda"}, id="7", delay="1h", latest="2h", if_exists="replace", headers={"a": "b"})
        topic.reschedule("7", delay=0)
        held = topic.pop()
        assert held is not None
        held.step("charge", lambda: "x" * 300)
        held.release(delay=0)
        assert json.loads(run("pop", "t"))["body"] == {"to": "Åda"}


def test_a_job_that_it_adds_is_popped_by_python(run: Run, url: str) -> None:
    with Client(url) as client:
        id = run("add", "t", '{"to": "Åda"}')
        job = client.topic("t").pop()
        assert job is not None
        assert (job.id, job.body) == (id, {"to": "Åda"})
        job.finish()
        assert client.topics() == ["t"]


def test_it_refuses_a_server_with_data(url: str, run: Run) -> None:
    run("add", "t", "1")
    with pytest.raises(AssertionError, match="not empty"):
        run("vectors")
