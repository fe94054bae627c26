"""examples/django_shop: in Django's own test client, by pytest-django, and as processes of ``manage.py tarry_worker``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tarry
from until import until

PROJECT = Path(__file__).parents[2] / "examples" / "django_shop"
Manage = Callable[..., "subprocess.Popen[str]"]

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT, tmp_path / "shop", ignore=shutil.ignore_patterns("*.sqlite3", "__pycache__")))


@pytest.fixture
def client(tarry_url: str, tmp_path: Path) -> Iterator[tarry.Client]:
    with tarry.Client(tarry_url, namespace=tmp_path.name.replace("_", "-")[:60]) as client:
        yield client


@pytest.fixture
def manage(project: Path, client: tarry.Client, tarry_url: str, django_python: Path) -> Iterator[Manage]:
    """``manage("tarry_worker", "--processes", "2")``, from another folder, as a service is started."""
    started: list[subprocess.Popen[str]] = []
    place = {"TARRY_URL": tarry_url, "TARRY_NAMESPACE": client.namespace, "SHOP_DATABASE": str(project / "db")}

    def start(*words: str, **more: str) -> subprocess.Popen[str]:
        command = [str(django_python), str(project / "manage.py"), *words]
        environment = {**os.environ, **place, **more}
        started.append(subprocess.Popen(command, cwd="/", env=environment, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_the_tests_of_the_django_example_pass(
    project: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, django_python: Path
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    words = (
        "-p",
        "no:asyncio",
        "-p",
        "no:schemathesis",
        "-p",
        "no:hypothesispytest",
        "-W",
        "error",
        "-c",
        os.devnull,
        "--rootdir",
        str(project),
    )
    pytester.run(django_python, "-m", "pytest", *words, project).assert_outcomes(passed=5)


@pytest.mark.parametrize("processes", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_the_django_command_works_until_sigterm(client: tarry.Client, manage: Manage, processes: str) -> None:
    assert manage("migrate", "--run-syncdb", "--verbosity", "0").wait() == 0
    topic = client.topic("shop")
    topic.add_many([{"task": name, "args": {"order_id": 7}} for name in ("close", "remind")])
    worker = manage("tarry_worker", "--processes", processes, "--log", "json")
    until(lambda: topic.stats().finished == 2 or worker.poll() is not None, "both done")
    until(lambda: len(client.workers()) == int(processes), "all are there")
    worker.terminate()
    _, said = worker.communicate()
    assert worker.returncode == 0, said
    assert client.workers() == []
    assert '"message":"■ stopped' in said


@pytest.mark.parametrize("processes", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_a_job_that_exceeds_the_grace_period_is_given_back(
    client: tarry.Client, project: Path, manage: Manage, processes: str
) -> None:
    with (project / "shop" / "jobs.py").open("a") as file:
        file.write("\n@worker.task\nasync def stuck() -> None:\n    import asyncio; await asyncio.Event().wait()\n")
    topic = client.topic("shop")
    topic.add({"task": "stuck"}, id="7")
    worker = manage("tarry_worker", "--processes", processes, SHOP_GRACE="50ms")
    until(lambda: topic.stats().reserved or worker.poll() is not None, "taken")
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate()
    assert worker.returncode == 4, said
    job = topic.get("7")
    assert job is not None
    assert (job.state, job.attempts) == ("ready", 0)


BATCHES = """

@worker.on("rows", batch=1, max_attempts=1)
def store(jobs: list) -> None:
    from django.db import connection
    assert connection.connection is None, "that of the batch before is open"
    connection.ensure_connection()
"""


def test_connections_to_the_database_are_closed_after_a_batch(
    client: tarry.Client, project: Path, manage: Manage
) -> None:
    with (project / "shop" / "jobs.py").open("a") as file:
        file.write(BATCHES)
    topic = client.topic("rows")
    topic.add_many([1, 2])
    worker = manage("tarry_worker")
    until(lambda: topic.stats().finished + topic.stats().dead == 2 or worker.poll() is not None, "both batches")
    worker.terminate()
    _, said = worker.communicate()
    assert topic.stats().finished == 2, said
    assert "middleware" not in said


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('{"URI": "redis://…"}', "TARRY: 'URI' is unknown; there are NAME, URL, NAMESPACE"),
        (
            '{"BLOCKED": "1s"}',
            "'BLOCKED' is unknown; there are NAME, URL, NAMESPACE, CONCURRENCY, TTR, GRACE, WARN_BLOCKED_AFTER.",
        ),
        ('{"WARN_BLOCKED_AFTER": "soon"}', "TARRY: warn_blocked_after: 'soon'"),
        ('"redis://…"', "is not a dictionary"),
        ('{"TTR": "soon"}', "TARRY: ttr: 'soon'"),
        ('{"URL": "http://x"}', "TARRY: url: the scheme 'http' is unknown"),
    ],
)
def test_wrong_settings_are_reported_when_django_starts(project: Path, manage: Manage, setting: str, told: str) -> None:
    with (project / "shop" / "settings.py").open("a") as file:
        file.write(f"\nTARRY = {setting}\n")
    done = manage("check")
    _, said = done.communicate()
    assert done.returncode == 1
    assert said.splitlines()[-1].startswith("django.core.exceptions.ImproperlyConfigured: TARRY")
    assert told in said


def test_a_project_without_a_name_is_told_where_to_give_it(project: Path, manage: Manage) -> None:
    with (project / "shop" / "settings.py").open("a") as file:
        file.write('\ndel TARRY["NAME"]\n')
    done = manage("check")
    _, said = done.communicate()
    assert done.returncode == 1
    assert said.splitlines()[-1].endswith(
        """BadInput: task: give the worker the application's name: TARRY = {"NAME": "shop"}."""
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--topics", "letters"], 2, "CommandError: topics: no handler for 'letters'; there are shop."),
        (["--processes", "0"], 2, "CommandError: processes:"),
        (["--log", "xml"], 2, "invalid choice"),
    ],
)
def test_wrong_usage_exits_with_2(manage: Manage, words: list[str], code: int, told: str) -> None:
    done = manage("tarry_worker", *words)
    _, said = done.communicate()
    assert (done.returncode, told in said) == (code, True), said
