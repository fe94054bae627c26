"""Tasks: functions whose calls travel as jobs."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest

import tarry
from until import LONGEST_S


class User(msgspec.Struct):
    id: int


def made(url: str, namespace: str, *registries: tarry.Registry) -> tarry.Worker:
    worker = tarry.Worker("shop", url=url, namespace=namespace)
    worker.include(*registries)
    return worker


def test_a_task_call_keeps_its_arguments(valkey_url: str, namespace: str) -> None:
    tasks, seen = tarry.Registry(), list[Any]()

    @tasks.task
    async def remind(user: User, when: datetime, text: str = "hello", *, loud: bool = False) -> None:
        seen.append((user, when, text, loud))

    @tasks.task(name="sum")
    def add_up(numbers: list[int], /) -> int:
        seen.append(sum(numbers))
        return sum(numbers)

    worker = made(valkey_url, namespace, tasks)
    when = datetime(2027, 1, 2, tzinfo=timezone.utc)
    added = remind.options(id="u7", headers={"trace": "1"}).add(User(7), when, loud=True)
    assert (added.id, added.is_new) == ("u7", True)
    remind.add(User(8), when=when, text="hi")
    add_up.add([1, 2, 3])
    asyncio.run(worker.run_until_idle())
    assert sorted(seen, key=str) == sorted([(User(7), when, "hello", True), (User(8), when, "hi", False), 6], key=str)
    assert add_up([4, 5]) == 9, "the function itself"


def test_a_task_makes_the_key_of_each_job_of_its_arguments(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task(key=lambda user, loud=False: f"user-{user.id}")
    def remind(user: User, loud: bool = False) -> None: ...

    @tasks.every("1h", topic="hourly", args={"n": 7})
    @tasks.task(topic="hourly", key=lambda n: f"n{n}")
    def count(n: int) -> None: ...

    @tasks.task(key=lambda n: n)
    def wrong(n: int) -> None: ...

    worker = made(valkey_url, namespace, tasks)
    topic = worker.client.topic("shop")
    remind.add(User(7), loud=True)
    remind.add(user=User(8))
    remind.options(key="own").add(User(9))
    topic.add_many([remind.new_job(User(10))])
    assert [job.key for job in topic.list()] == ["user-7", "user-8", "own", "user-10"]
    assert [one.options.key for one in tasks.registered.schedules()] == ["n7"]
    with pytest.raises(tarry.BadInput, match="task wrong: what its key= has made, key: 7"):
        wrong.add(7)
    with pytest.raises(tarry.BadInput, match="key: 'a'; of a task it is a function"):
        tasks.task(key="a")(count)  # type: ignore[call-overload]


def test_tasks_can_be_added_from_an_event_loop(valkey_url: str, namespace: str) -> None:
    tasks, seen = tarry.Registry(), list[int]()
    over = asyncio.Event()

    @tasks.task
    async def count(n: int) -> None:
        seen.append(n)
        if n:
            await count.options(delay="1ms").add_async(n - 1)
        else:
            over.set()

    worker = made(valkey_url, namespace, tasks)

    async def main() -> None:
        async with worker:
            await count.add_async(3)
            await over.wait()

    asyncio.run(main())
    assert seen == [3, 2, 1, 0]


def test_task_options_are_those_of_add(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task(topic="mail")
    async def remind(user: int) -> None: ...

    worker = made(valkey_url, namespace, tasks)
    with worker.client as client:
        assert remind.options(delay="1h", id="u7").add(7).state == "delayed"
        with pytest.raises(tarry.JobExists):
            remind.options(id="u7").add(7)
        assert remind.options(id="u7", if_exists="keep").add(7).is_new is False
        remind.options(max_lateness="5m", id="u8", headers={"k": "v"}, priority=2).add(7)
        late = client.topic("mail").get("u8")
        assert late is not None
        assert (late.head.max_lateness_us, late.headers, late.priority) == (300_000_000, {"k": "v"}, 2)
        with pytest.raises(tarry.BadInput, match="priority: 4; it is a whole number from 0"):
            remind.options(priority=4)
        assert client.topic("mail").delete("u8") == "ready"
        with pytest.raises(tarry.ServerUnfit, match=r"^Nothing was added: .*`appendonly yes`"):
            remind.options(durability="fsynced").add(7)
        job = client.topic("mail").get("u7")
        assert job is not None
        assert job.body == {"task": "remind", "args": {"user": 7}}
        client.topic("mail").add_many([remind.new_job(8), remind.new_job(user=9)])
        assert client.topic("mail").stats().ready == 2


def test_an_added_task_can_be_cancelled_rescheduled_and_read(valkey_url: str, namespace: str) -> None:
    tasks, seen = tarry.Registry(), list[int]()

    @tasks.task(topic="mail")
    async def remind(user: int) -> None:
        seen.append(user)

    worker = made(valkey_url, namespace, tasks)
    paid, later, unknown = (remind.options(delay="1h").add(n) for n in (1, 2, 3))
    assert (paid.topic, paid.state, paid.is_new) == ("mail", "delayed", True)
    found = paid.get()
    assert found is not None
    assert (found.id, found.due) == (paid.id, paid.due)
    assert paid.cancel() == "delayed"
    assert (paid.cancel(), paid.get(), paid.reschedule(delay=0)) == (None, None, None)
    assert later.reschedule(delay=0) == "delayed"
    assert remind.reschedule(unknown.id, delay="2h") == "delayed"
    found = remind.get(unknown.id)
    assert found is not None
    assert found.due is not None
    assert found.due > unknown.due
    assert remind.cancel(unknown.id) == "delayed"
    assert remind.get(unknown.id) is None
    asyncio.run(worker.run_until_idle())
    assert seen == [2]


def test_an_async_added_task_can_be_cancelled_rescheduled_and_read(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task
    async def remind(user: int) -> None: ...

    worker = made(valkey_url, namespace, tasks)

    async def main() -> None:
        job = await remind.options(delay="1h", id="u7").add_async(7)
        assert (job.id, job.topic, job.state) == ("u7", "shop", "delayed")
        assert await job.reschedule(delay="2h") == "delayed"
        found = await job.get()
        assert found is not None
        again = await remind.get_async("u7")
        assert again is not None
        assert again.due == found.due
        assert await remind.reschedule_async("u7", delay=0) == "delayed"
        assert await job.cancel() == "ready"
        assert await remind.cancel_async("u7") is None
        assert await remind.get_async("u7") is None
        await worker.close()

    asyncio.run(main())


def test_plain_tasks_run_twenty_at_a_time_as_plain_handlers_do(valkey_url: str, namespace: str) -> None:
    tasks, full, lock = tarry.Registry(), threading.Event(), threading.Lock()
    running, reserved = list[int](), list[int]()

    @tasks.task
    def work(n: int) -> None:
        with lock:
            running.append(n)
            if len(running) == 20:
                reserved.append(client.topic("shop").stats().reserved)
                full.set()
        assert full.wait(LONGEST_S)

    worker = made(valkey_url, namespace, tasks)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("shop").add_many([work.new_job(n) for n in range(60)])
        asyncio.run(worker.run_until_idle())
        assert (reserved, client.topic("shop").stats().finished) == ([20], 60)


def test_a_task_handle_is_also_the_result_of_add(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task
    async def remind(user: int) -> None: ...

    worker = made(valkey_url, namespace, tasks)
    with worker.client:
        job = remind.options(id="u7", delay="1h").add(7)
        assert isinstance(job, tarry.Added)
        assert msgspec.to_builtins(job).keys() == {"id", "is_new", "state", "due", "topic"}
        copied = pickle.loads(pickle.dumps(job))
        assert copied == job
        with pytest.raises(tarry.BadInput, match=r"call the task's method with its id"):
            copied.cancel()
        assert remind.cancel(copied.id) == "delayed"


def test_what_add_returned_works_after_a_run(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.task(keep_finished="1h")
    async def double(n: int) -> int:
        return 2 * n

    topic = worker.client.topic("shop")
    job = double.add(1)
    asyncio.run(worker.run_until_idle())
    assert (job.result(), topic.stats().finished) == (2, 1)

    async def add_and_work() -> Any:
        topic = worker.async_client.topic("shop")
        job = await double.add_async(2)
        await worker.run_until_idle()
        assert (await job.result(), (await topic.stats()).finished) == (4, 2)
        await worker.close()
        assert await job.result() == 4, "the next verb connects again"
        await worker.close()
        return job

    later = asyncio.run(add_and_work())
    assert asyncio.run(_result_of(later, worker)) == 4
    assert job.result() == 2
    asyncio.run(worker.close())


async def _result_of(job: Any, worker: tarry.Worker) -> Any:
    result = await job.result()
    await worker.close()
    return result


def test_a_handle_made_on_another_server_stays_there(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url="redis://nowhere.invalid")

    @worker.task(keep_finished="1h")
    async def double(n: int) -> int:
        return 2 * n

    with tarry.Client(valkey_url, namespace=namespace) as client:
        for server in ({"server": client}, {"server": valkey_url, "namespace": namespace}):
            with worker.using(**server):  # type: ignore[arg-type]
                job = double.add(1)
                asyncio.run(worker.run_until_idle())
            assert job.result() == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"task": "frob", "args": {}}, "nobody here knows task 'frob' since "),
        (
            {"task": "remind", "args": {"user": "x"}},
            "the arguments do not fit remind(user: int, text: str = 'hi') -> None",
        ),
        ({"task": "remind", "args": {}}, "missing required field `user`"),
        ({"task": "remind", "args": {"user": 7, "colour": 1}}, "unknown field `colour`"),
        ({"args": {}}, "not a task: "),
        (7, "not a task: "),
        ({"task": "x" * 201}, "not a task: expected `str` of length <= 200"),
        (b'{"task":"\xff"}', "not a task: 'utf-8' codec"),
        (
            b'{"task":"remind","args":' + b"[" * 9999 + b"]" * 9999 + b"}",
            "not a task: maximum recursion depth exceeded",
        ),
        (b'{"task":"remind","args":{"user":1,"text":"\xff"}}', "the arguments do not fit remind"),
    ],
)
def test_an_invalid_task_call_fails_with_a_reason(valkey_url: str, namespace: str, body: Any, reason: str) -> None:
    tasks = tarry.Registry()

    @tasks.task
    async def remind(user: int, text: str = "hi") -> None:
        raise AssertionError

    worker = made(valkey_url, namespace, tasks)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("shop").add(body, id="7")
        asyncio.run(worker.run_until_idle())
        job = client.topic("shop").get("7")
        assert job is not None
        attempts, pause_s = (0, 0.1) if "nobody here knows" in reason else (1, 0.5)
        assert (job.state in ("delayed", "ready"), job.attempts) == (True, attempts), "the pause may be over by now"
        assert job.due - job.created >= timedelta(seconds=pause_s)
        if attempts:
            assert str(job.reason).startswith("BodyError: ")
        assert (job.reason is None) == (job.note is not None) == (not attempts)
        assert reason.lower() in str(job.reason or job.note).lower()


@pytest.mark.parametrize("users", [{1, 2}, frozenset({1}), set()])
def test_a_set_is_refused_as_an_argument_without_annotation(valkey_url: str, users: object) -> None:
    worker = tarry.Worker("shop", url=valkey_url)

    @worker.task
    def remind(users, others: Any = None, third: set[int] = set()):  # type: ignore[no-untyped-def]  # noqa: B006
        pass

    with pytest.raises(tarry.BadInput, match="task remind, argument users: JSON has no set"):
        remind.add(users)
    with pytest.raises(tarry.BadInput, match="task remind, argument others: JSON has no set"):
        remind.add([], users)
    assert remind.body([], third={7})["args"] == {"users": [], "third": {7}}, "it comes back as a set"


def test_an_argument_that_would_come_back_as_another_is_refused_unless_it_is_annotated(valkey_url: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)
    naive = datetime(2026, 1, 2)  # noqa: DTZ001  # as a user may

    @worker.task
    def bill(price, at: datetime = naive, prices: Any = None, sums: dict[int, Decimal] = {}):  # type: ignore[no-untyped-def]  # noqa: B006
        pass

    for value, words in [
        (Decimal("1.50"), "JSON has no Decimal"),
        (naive, "has no time zone"),
        ({"at": naive}, "has no time zone"),
        ({7: "a"}, "JSON has only text as keys"),
    ]:
        with pytest.raises(tarry.BadInput, match=f"^task bill, argument price: .*{words}.*, or annotate the argument"):
            bill.add(value)
        with pytest.raises(tarry.BadInput, match=f"^task bill, argument prices: .*{words}"):
            bill.add(1, prices=value)
    assert bill.body(1, at=naive, sums={7: Decimal(1)})["args"]["at"] == naive, "it comes back as it was"


def test_an_argument_that_is_not_finite_is_named_as_that(valkey_url: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)

    @worker.task
    def bill(price: float) -> None: ...

    with pytest.raises(tarry.BadInput, match="not finite"):
        bill.add(float("nan"))


def test_wrong_arguments_are_refused_before_anything_is_written(valkey_url: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)

    @worker.task
    async def remind(user: int) -> None: ...

    with pytest.raises(tarry.BadInput, match=r"task remind\(user: int\) -> None: missing a required argument: 'user'"):
        remind.add()  # type: ignore[call-arg]
    with pytest.raises(tarry.BadInput, match="task remind"):
        remind.add(7, 8)  # type: ignore[call-arg]
    for user, words in [
        ("7", "Expected `int`, got `str` - at `$.user`"),
        ({1: 2}, "Expected `int`, got `object`"),
        (True, "Expected `int`, got `bool`"),
        (object(), "Encoding objects of type object is unsupported"),
    ]:
        wrong: Any = user
        for way in (remind.add, remind.new_job, remind.options(delay=1).add):
            with pytest.raises(tarry.BadInput, match=re.escape("task remind(user: int) -> None: ") + re.escape(words)):
                way(wrong)
        with pytest.raises(tarry.BadInput, match=re.escape(words)):
            asyncio.run(remind.add_async(wrong))
    with pytest.raises(tarry.BadInput, match="delay"):
        remind.options(delay="soon")
    with pytest.raises(tarry.BadInput, match="max_lateness"):
        remind.options(max_lateness="soon")
    with pytest.raises(tarry.BadInput, match="durability"):
        remind.options(durability="twice")  # type: ignore[arg-type]


def test_an_impossible_task_is_refused(valkey_url: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)

    class Foreign: ...

    def many(*numbers: int) -> None: ...
    def foreign(thing) -> None: ...  # type: ignore[no-untyped-def]

    foreign.__annotations__["thing"] = Foreign
    with pytest.raises(tarry.BadInput, match="cannot be sent"):
        worker.task(many)
    with pytest.raises(tarry.BadInput, match="argument thing: Foreign cannot be decoded from JSON"):
        worker.task(foreign)
    worker.task(name="one")(lambda: None)
    with pytest.raises(tarry.BadInput, match="has one named 'one' already"):
        worker.task(name="one")(lambda: None)
    worker.on("orders")(lambda job: None)
    with pytest.raises(tarry.BadInput, match="tasks need a topic of their own"):
        worker.task(topic="orders", name="two")(lambda: None)


def test_adding_a_task_without_a_worker_raises() -> None:
    tasks = tarry.Registry()

    @tasks.task
    async def remind() -> None: ...

    with pytest.raises(tarry.BadInput, match="belongs to no worker; import the module"):
        remind.add()
    with pytest.raises(tarry.BadInput, match="call it inside a task"):
        tarry.current_job()


def test_current_job_returns_the_job_of_the_task(valkey_url: str, namespace: str) -> None:
    tasks, seen = tarry.Registry(), list[Any]()

    @tasks.task
    async def awaited() -> None:
        await asyncio.sleep(0)
        seen.append((tarry.current_job().id, tarry.current_job().lost))

    @tasks.task
    def plain() -> None:
        seen.append((tarry.current_job().id, tarry.current_job().lost))

    worker = made(valkey_url, namespace, tasks)
    awaited.options(id="a").add()
    plain.options(id="p").add()
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == [("a", False), ("p", False)]


def test_each_task_has_its_own_retry_and_timeout(valkey_url: str, namespace: str) -> None:
    tasks = tarry.Registry()

    @tasks.task(max_attempts=1)
    async def once() -> None:
        raise ValueError

    @tasks.task(retry=lambda job, fault: "1h", timeout="1ms")
    async def patient() -> None:
        await asyncio.Event().wait()

    worker = made(valkey_url, namespace, tasks)
    once.options(id="once").add()
    patient.options(id="patient").add()
    asyncio.run(worker.run_until_idle())
    with tarry.Client(valkey_url, namespace=namespace) as client:
        first, second = client.topic("shop").get_many(["once", "patient"])
        assert first is not None
        assert second is not None
        assert (first.state, second.state) == ("dead", "delayed")
        assert second.reason == "TimeoutError: patient took longer than its timeout of 0.001 s"


def test_registries_are_composed(valkey_url: str, namespace: str) -> None:
    inner, outer, seen = tarry.Registry(), tarry.Registry(), list[str]()

    @inner.task
    async def deep() -> None:
        seen.append("deep")

    @outer.on("letters")
    async def letter(text: str) -> None:
        seen.append(text)

    outer.include(inner)
    worker = made(valkey_url, namespace, outer)
    with pytest.raises(tarry.BadInput, match="letters"):
        worker.on("letters")
    again = tarry.Registry()
    again.on("letters")(letter)
    with pytest.raises(tarry.BadInput, match=r"already is a handler for \['letters'\]"):
        worker.include(again)
    with pytest.raises(tarry.BadInput, match="cannot include itself"):
        outer.include(outer)
    deep.add()
    worker.client.topic("letters").add("dear")
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == ["dear", "deep"]


class Mails:
    def send(self, to: str) -> None: ...

    @classmethod
    def count(cls, to: str) -> None: ...

    @staticmethod
    def remind(to: str) -> None: ...

    def __call__(self, to: str) -> None: ...


def receive(self: Any, job: Any) -> None: ...


@pytest.mark.parametrize("function", [Mails.send, receive])
def test_a_method_without_its_object_is_refused(function: Any) -> None:
    words = r"its first argument is self, and no object is there when a job comes\. Write a function.*a @staticmethod"
    for register in (tarry.Registry().task, tarry.Registry().on("mails"), tarry.Registry().every("5m")):
        with pytest.raises(tarry.BadInput, match=words):
            register(function)


@pytest.mark.parametrize("function", [Mails().send, Mails.count, Mails.remind])
def test_a_method_that_has_what_it_needs_is_a_task(function: Any) -> None:
    assert tarry.Registry().task(function).body("ann")["args"] == {"to": "ann"}


def test_a_lambda_needs_a_name() -> None:
    registry = tarry.Registry()
    with pytest.raises(tarry.BadInput, match="a lambda has no name, and its jobs need one; give name=, or write a def"):
        registry.task(lambda: None)
    assert registry.task(name="nothing")(lambda: None).name == "nothing"


@pytest.mark.parametrize("timing", ["every", "cron"])
def test_a_schedule_without_the_arguments_of_its_task_names_args(timing: str) -> None:
    registry = tarry.Registry()
    schedule: Any = registry.every if timing == "every" else registry.cron

    def report(kind: str, days: int, short: bool = False) -> None: ...

    when = "5m" if timing == "every" else "0 9 * * *"
    with pytest.raises(tarry.BadInput, match=r"has no argument 'kind'; give args=\{\"kind\": …, \"days\": …\}\.$"):
        schedule(when)(report)
    with pytest.raises(tarry.BadInput, match="has no argument 'days'; give args="):
        tarry.Registry().every(when if timing == "every" else "5m", args={"kind": "all"})(report)
    schedule(when, args={"kind": "all", "days": 7}, id="week")(tarry.Registry().task(report))


@pytest.mark.parametrize("name", [7, 7.5, b"shop", True, "", ["shop"]])
def test_a_worker_with_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(tarry.BadInput, match=r"^name: "):
        tarry.Worker(name)
