"""``run="process"``: functions that run in child processes, and are really stopped."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.worker.process_pool import ChildProcess
from tarry.worker.settler import Settler
from tarry.worker.threads import ThreadPool
from tarry.worker.worker import override
from until import LONGEST_S, is_alive, until
from warm import WarmTarry
from worker import process_app, stamped_app, stamped_functions
from worker.process_app import Order

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_children")]
APP = Path(process_app.__file__)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    (tmp_path / "diary").touch()
    return tmp_path / "diary"


@pytest.fixture
def worker(valkey_url: str, namespace: str) -> Iterator[tarry.Worker]:
    made = tarry.Worker("shop", url=valkey_url, namespace=namespace, grace="0s")
    made.include(process_app.registry)
    yield made
    process_app.registry.registered.parent = None


def worked(
    worker: tarry.Worker, client: tarry.Client, diary: Path, *acts: str, topic: str = "orders"
) -> dict[str, Any]:
    """What became of a job for each act; ``None`` of one that is finished. In ``orders`` two children work, in ``results`` one."""
    orders = client.topic(topic, type=Order)
    orders.add_many([tarry.NewJob(Order(str(diary), act), id=act) for act in acts])
    asyncio.run(worker.run_until_idle())
    assert orders.check().ok
    return dict(zip(acts, orders.get_many(acts), strict=True))


def test_hanging_code_and_its_subprocesses_are_stopped_at_the_timeout(
    worker: tarry.Worker, client: tarry.Client, diary: Path
) -> None:
    client.topic("hanging", type=Order).add(Order(str(diary)), id="7")
    asyncio.run(worker.run_until_idle())
    job = client.topic("hanging").get("7")
    assert job is not None
    assert (job.state, job.attempts, job.reason) == ("dead", 1, "attempts exhausted")
    assert str(job.error).startswith("TimeoutError: hang took longer than its timeout of 0.3 s")
    pids = [int(pid) for pid in diary.read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(map(is_alive, pids)), "the end of both processes")


ACTS = (
    "die exit leave plain flood finish coroutine generator "  # what ends a run
    "empty declined local snooze bury"  # what it raises
).split()
WRONG = "a wrong body"


@pytest.fixture(scope="module")
def acted(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of a job for each act, by one worker; ``None`` of one that is finished."""
    diary = tmp_path_factory.mktemp("acted") / "diary"
    worker = tarry.Worker("shop", url=valkey_url, namespace="acted", grace="0s")
    worker.include(process_app.registry)
    with tarry.Client(valkey_url, namespace="acted") as client:
        client.topic("orders").add({"diary": 7}, id=WRONG)
        found = worked(worker, client, diary, *ACTS)
        process_app.registry.registered.parent = None
        assert client.topic("orders").stats().finished == 3
        return {**found, WRONG: client.topic("orders").get(WRONG)}


def test_a_dying_child_costs_only_one_attempt(acted: dict[str, Any]) -> None:
    assert [acted[act] for act in ("plain", "flood", "finish")] == [None] * 3
    assert acted["die"].reason == "ChildProcessError: close: its process was killed by SIGSEGV"
    assert acted["exit"].reason == "ChildProcessError: close: its process exited with 3"
    assert acted["leave"].reason == "SystemExit: left"
    assert acted["coroutine"].reason.startswith("TypeError: the handler is a plain function and returned an awaitable")
    assert acted["generator"].reason.startswith("TypeError: the handler returned a generator, whose work is not done")
    assert [acted[act].attempts for act in ("die", "exit", "leave")] == [1, 1, 1]


def test_exceptions_of_the_function_are_kept(acted: dict[str, Any]) -> None:
    assert (acted["empty"].state, acted["empty"].reason) == ("dead", "Empty: no order"), "its retry= knows it"
    assert "in close" in acted["empty"].error
    assert 'raise Empty("no order")' in acted["empty"].error
    assert acted["declined"].reason == "Exception: worker.process_app.Declined: 7: no money"
    assert "of nobody" in acted["local"].reason
    assert acted["local"].reason.startswith("ValueError: ")
    snooze = acted["snooze"]
    assert (snooze.state, snooze.attempts, snooze.reason) == ("delayed", 0, "Snooze: not yet")
    assert (acted["bury"].state, acted["bury"].reason) == ("dead", "nobody wants it")


def test_a_body_of_the_wrong_type_is_a_body_error(acted: dict[str, Any]) -> None:
    job = acted[WRONG]
    assert (job.state, str(job.reason).partition(":")[0]) == ("dead", "BodyError")


def test_middleware_gets_the_result_if_it_can_be_pickled(
    worker: tarry.Worker, client: tarry.Client, diary: Path
) -> None:
    seen: list[tuple[str, Any]] = []

    @worker.around
    def watch(job: Any, handle: Callable[[Any], Any]) -> Any:
        seen.append((job.id, handle(job)))

    assert worked(worker, client, diary, "result", "lambda", topic="results") == {"result": None, "lambda": None}
    assert sorted(seen) == [("lambda", None), ("result", {"n": 0})]


def test_the_result_of_a_child_is_kept_if_it_can_be_pickled(
    worker: tarry.Worker, client: tarry.Client, diary: Path
) -> None:
    topic = client.topic("results")
    topic.configure(keep_finished="1h")
    worked(worker, client, diary, "result", "lambda", topic="results")
    assert topic.result("result") == {"n": 0}
    assert topic.result("lambda") is None


def test_children_are_reused(worker: tarry.Worker, client: tarry.Client, diary: Path) -> None:
    orders = client.topic("orders", type=Order)
    many = 300
    orders.add_many([Order(str(diary), n=n) for n in range(many)])
    asyncio.run(worker.run_until_idle())
    assert orders.stats().finished == many
    lines = diary.read_text().splitlines()
    assert len(lines) == many
    pids = pids_in(diary)
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert not any(map(is_alive, pids)), "they end with the worker"


def pids_in(diary: Path) -> set[int]:
    return {int(line.split()[2]) for line in diary.read_text().splitlines()}


def test_a_child_that_dies_idle_costs_the_next_job_no_attempt(
    monkeypatch: pytest.MonkeyPatch, worker: tarry.Worker, client: tarry.Client, diary: Path
) -> None:
    """Both idle children are killed, and the worker hands them jobs before it notices."""
    monkeypatch.setattr(ChildProcess, "is_alive", True)
    orders = client.topic("orders", type=Order)

    async def story() -> None:
        async with worker:
            orders.add_many([Order(str(diary), n=n) for n in range(100)])
            while orders.stats().finished < 100:  # noqa: ASYNC110  # the server decides
                await asyncio.sleep(0.01)
            pids = pids_in(diary)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            orders.add_many([tarry.NewJob(Order(str(diary)), id=str(n)) for n in range(4)])
            while orders.stats().finished < 104:
                assert not any(job and job.failed_attempts for job in orders.get_many([str(n) for n in range(4)]))
                await asyncio.sleep(0.01)
            assert pids_in(diary) > pids

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))


def test_tasks_in_a_child_know_their_job_and_can_add_tasks(
    worker: tarry.Worker, client: tarry.Client, diary: Path
) -> None:
    first = process_app.count.add(str(diary), 2)

    async def work() -> None:
        async with worker:
            await asyncio.to_thread(until, lambda: client.topic("shop").stats().finished == 3, "the last task")

    asyncio.run(work())
    lines = diary.read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["2", "1", "0"]
    assert lines[0].split()[2] == first.id


def test_a_task_that_a_child_adds_gets_the_topic_and_the_stamps_of_its_worker(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    with stamped_app.worker.using(valkey_url, namespace=namespace):
        stamped_functions.greet.add("bob")
        asyncio.run(stamped_app.worker.run_until_idle())
    assert client.topic("greetings").stats().finished == 1
    job = client.topic("hall").get("bob")
    assert job is not None, "the topic is named after the worker"
    assert job.headers == {"host": "ada"}


def test_a_client_in_a_child_has_all_settings(valkey_url: str, namespace: str, diary: Path) -> None:
    others = {"max_body": 2 << 20, "patience": 20, "name_mapper": process_app.shop_name, "redisson": "3.15.1"}
    assert {"url", "namespace", *others} == set(inspect.signature(tarry.Client).parameters)
    with tarry.Client(valkey_url, namespace=namespace, **others) as client:  # type: ignore[arg-type]
        worker = tarry.Worker("shop", client=client)
        try:
            worker.include(process_app.registry)
            worked(worker, client, diary, "settings")
        finally:
            process_app.registry.registered.parent = None
        *_, settings, of_its_tasks = [line for line in diary.read_text().splitlines() if line[0] == "{"]
        assert settings == of_its_tasks == process_app.settings_of(client.engine.config)


def test_an_override_of_a_worker_keeps_the_other_settings_of_its_client(valkey_url: str, namespace: str) -> None:
    others = {"max_body": 2 << 20, "patience": 20, "name_mapper": "shop:", "redisson": "3.15.1"}
    with tarry.Client(valkey_url, namespace=namespace, **others) as client:  # type: ignore[arg-type]
        worker = tarry.Worker("shop", client=client)
        override(worker, namespace="other")
        assert worker.client.engine.config.settings() == {"namespace": "other", **others}
        override(worker, url=f"{valkey_url}?db=1")
        assert worker.client.engine.config.settings() == {"namespace": "other", **others}
        assert worker.client.engine.config.address.full_url == f"{valkey_url}?db=1"
        asyncio.run(worker.close())


def test_a_name_mapper_that_no_child_can_import_is_refused_at_the_start(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", client=tarry.Client(valkey_url, namespace=namespace, name_mapper=lambda name: name))
    try:
        worker.include(process_app.registry)
        with pytest.raises(tarry.BadInput, match="name_mapper: a child process imports it by name"):
            asyncio.run(worker.run_until_idle())
    finally:
        process_app.registry.registered.parent = None


SCRIPT = """
import asyncio, sys
import tarry
from worker import stamped_functions

def shop_name(name):
    return name

client = tarry.Client(sys.argv[1], namespace=sys.argv[2], name_mapper=shop_name)
worker = tarry.Worker("hall", client=client)
worker.include(stamped_functions.registry)
worker.stamp(lambda: {"host": "script"})
START
    asyncio.run(worker.run_until_idle())
"""


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_child_imports_the_script_that_makes_its_worker(
    valkey_url: str,
    namespace: str,
    client: tarry.Client,
    tmp_path: Path,
    tarry_command: WarmTarry,
    is_guarded: bool,
) -> None:
    """For the stamps. A script that would start its worker again in the child fails the job, with what to do."""
    script = tmp_path / "script.py"
    client.topic("greetings").add({"task": "greet", "args": {"user": "bob"}}, max_attempts=1)
    script.write_text(SCRIPT.replace("START", 'if __name__ == "__main__":' if is_guarded else "if True:"))
    assert tarry_command.start_program(script, valkey_url, namespace).wait(LONGEST_S) == 0
    job = client.topic("hall").get("bob")
    if is_guarded:
        assert client.topic("greetings").stats().finished == 1
        assert job is not None
        assert job.headers == {"host": "script"}
    else:
        assert job is None
        dead, *_ = client.topic("greetings").list("dead")
        assert 'start yours under `if __name__ == "__main__":`' in str(dead.error)


def test_a_child_adds_to_the_topic_of_its_worker_also_when_it_has_no_stamps(
    valkey_url: str, namespace: str, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tarry.Worker("garden", url=valkey_url, namespace=namespace)
    monkeypatch.setattr(stamped_functions.registry.registered, "parent", None)
    worker.include(stamped_functions.registry)
    stamped_functions.greet.add("eve")
    asyncio.run(worker.run_until_idle())
    assert client.topic("greetings").stats().finished == 1
    assert client.topic("garden").get("eve") is not None


@pytest.mark.parametrize("topic", ["orders", "orders-of-a-pattern"])
def test_a_run_beyond_the_grace_period_is_stopped_and_then_given_back(
    worker: tarry.Worker, client: tarry.Client, diary: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    client.topic(topic, type=Order).add(Order(str(diary), "stuck"), id="7")
    give_back, too_early = Settler.give_back, list[Any]()

    def runs() -> bool:
        return is_alive(int(diary.read_text().split()[2]))

    async def spy(settler: Settler, jobs: list[Any]) -> None:
        too_early.extend(job for job in jobs if not job.settled and runs())
        await give_back(settler, jobs)

    monkeypatch.setattr(Settler, "give_back", spy)

    async def work() -> int:
        running = asyncio.ensure_future(worker.run(signals=False))
        await asyncio.to_thread(until, diary.read_text, "the run")
        worker.stop()
        return await running

    assert asyncio.run(work()) == 1
    assert too_early == []
    job = client.topic(topic).get("7")
    assert job is not None
    assert (job.state, job.attempts) == ("ready", 0)
    assert not runs()


def test_cancel_when_lost_stops_a_run_in_a_child(
    valkey_url: str, namespace: str, client: tarry.Client, diary: Path
) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, ttr="1s")
    worker.include(process_app.lost)
    client.topic("lost", type=Order).add(Order(str(diary), "stuck"), id="7")

    def ended() -> bool:
        return not is_alive(int(diary.read_text().split()[0]))

    async def work() -> None:
        async with worker:
            await asyncio.to_thread(until, diary.read_text, "the run")
            client.topic("lost").delete("7")
            await asyncio.to_thread(until, ended, "the end of the run")

    asyncio.run(work())
    assert client.topic("lost").stats().deleted == 1
    process_app.lost.registered.parent = None


def test_a_child_exits_with_its_worker(
    valkey_url: str, namespace: str, client: tarry.Client, diary: Path, tarry_command: WarmTarry
) -> None:
    """The worker's functions are those of its main script, which the child imports."""
    for topic in ("orders", "hanging"):
        client.topic(topic, type=Order).add(Order(str(diary), "stuck"), id=topic)
    process = tarry_command.start_program(APP, valkey_url, namespace)
    try:
        until(lambda: "begun" in diary.read_text(), "the run")
    finally:
        process.kill()
        process.wait()
    [line] = [line for line in diary.read_text().splitlines() if "begun" in line]
    until(lambda: not is_alive(int(line.split()[2])), "the end of the child")


def test_a_child_process_keeps_steps(worker: tarry.Worker, client: tarry.Client, diary: Path) -> None:
    client.topic("orders").add(Order(str(diary), "steps"), id="7")
    asyncio.run(worker.run_until_idle())
    lines = [line.split()[0] for line in diary.read_text().splitlines()]
    assert (lines.count("begun"), lines.count("charged"), lines.count("mailed")) == (2, 1, 1)


def test_a_child_process_pauses_its_topic_and_jobs_that_wait_for_a_child_go_back(
    valkey_url: str, namespace: str, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late the worker notices."""
    drain = ThreadPool._drain

    def late(pool: ThreadPool[Any]) -> None:
        time.sleep(0.3)
        drain(pool)

    monkeypatch.setattr(ThreadPool, "_drain", late)
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.include(process_app.pausing)
    with tarry.Client(valkey_url, namespace=namespace) as client, worker.using(client):
        added = [process_app.stop_all.add(str(diary), n) for n in range(6)]
        asyncio.run(worker.run_until_idle())
        process_app.pausing.registered.parent = None
        stats = client.topic("shop").stats()
        assert diary.read_text().splitlines() == ["begun 0"]
        assert (stats.ready, stats.reserved, stats.finished) == (6, 0, 0)
        assert {job.attempts for job in client.topic("shop").list("ready")} == {0}
        assert [job.id for job in client.topic("shop").list("ready")] == [one.id for one in added]


def test_a_chain_of_child_processes_is_worked_to_its_end(valkey_url: str, namespace: str, diary: Path) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.include(process_app.chains)
    try:
        process_app.link.add(5, str(diary))
        asyncio.run(worker.run_until_idle())
        assert diary.read_text().split() == list("543210")
    finally:
        process_app.chains.registered.parent = None
        asyncio.run(worker.close())


def test_the_processes_of_cancelled_runs_are_killed(
    valkey_url: str, namespace: str, client: tarry.Client, diary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tarry.worker")
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, ttr="5s", grace=0)
    worker.include(process_app.registry)
    orders = client.topic("orders")
    for n in range(4):  # two run, two wait for a child
        orders.add({"diary": str(diary), "act": "stuck"}, id=str(n))

    def begun() -> list[list[str]]:
        return [line.split()[1:] for line in diary.read_text().splitlines() if line.startswith("begun")]

    def is_logged() -> bool:
        said = ("was cancelled: its process is killed", "were cancelled: their processes are killed")
        return any(words in line.getMessage() for line in caplog.records for words in said)

    def cancel() -> None:
        until(lambda: len(begun()) == 2, "two run")
        pids = [int(words[1]) for words in begun()]
        assert orders.delete_many(["0", "1", "2", "3"], running=True).count("reserved") >= 2
        until(lambda: not any(map(is_alive, pids)), "their processes are gone")
        until(is_logged, "the log says so, in one line if both are found at once")
        orders.add({"diary": str(diary)}, id="after")
        until(lambda: orders.stats().finished == 1, "the worker goes on")

    async def work() -> None:
        async with worker:
            await asyncio.to_thread(cancel)

    asyncio.run(work())
    process_app.registry.registered.parent = None
    assert len(begun()) == 3
    assert orders.check().ok


def test_functions_that_a_child_cannot_run_are_refused() -> None:
    worker = tarry.Worker("shop")

    def local(job: Any) -> None: ...

    with pytest.raises(tarry.BadInput, match="imports local by name; define it at the top level"):
        worker.on("n", run="process")(local)
    with pytest.raises(tarry.BadInput, match="define it at the top level"):
        worker.task(run="process", name="t")(local)
