"""Jobs whose handler did not return: in imaginary time, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec import UNSET

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.programs.dashboard.explanations import JobFacts
from tarry.values.durations import SECOND, as_datetime
from tarry.wire import answers
from tarry.worker.verdicts import LONGEST_ERROR, retry_delay_us
from until import until
from walked import cases

MINUTE = timedelta(minutes=1)
GROUPS = {
    "snooze": ([tarry.Snooze("1h")], ("delayed", 0, "Snooze")),
    "pause": ([tarry.Pause("1h", "429")], ("ready", 0, "Pause: 429")),
    "bury": ([tarry.Bury("no such user")], ("dead", 1, "no such user")),
    "retry": ([tarry.Retry("no answer", after="1h")], ("delayed", 1, "Retry: no answer")),
    "nested": ([ExceptionGroup("", [tarry.Snooze("1h")])], ("delayed", 0, "Snooze")),
    "mixed": ([tarry.Snooze("1h"), ValueError("broken")], ("delayed", 1, "ExceptionGroup: of tasks (2 sub-exceptions)")),
    "other": ([ValueError("broken")], ("delayed", 1, "ExceptionGroup: of tasks (1 sub-exception)")),
}  # fmt: skip
"""By name: the exceptions of a group, and the state, the attempts and the reason of its job then."""
Raise = Callable[[Any], Any]


class Play:
    """A worker with one handler that raises, and what it leaves behind."""

    def __init__(self, url: str, namespace: str) -> None:
        self.clock = Clock()
        self.url, self.namespace = url, namespace
        self.client = TestClient(url, self.clock, namespace=namespace)
        self.topic = self.client.topic("n")
        self.attempts: list[int] = []

    def run(self, raises: Raise, *, plain: bool = False, around: Any = None, **options: Any) -> None:
        """Works until nothing is due."""
        worker = tarry.Worker("shop", client=TestAsyncClient(self.url, self.clock, namespace=self.namespace))
        if around is not None:
            worker.around(around)

        def handle(job: Any) -> None:
            self.attempts.append(job.attempt)
            raise raises(job)

        async def awaited(job: Any) -> None:
            handle(job)

        worker.on("n", **options)(handle if plain else awaited)
        assert asyncio.run(worker.run_until_idle()) == 0

    def run_until_dead(self, **options: Any) -> None:
        while not self.topic.list("dead").jobs:
            if waiting := self.topic.list("delayed").jobs:
                assert waiting[0].due is not None
                self.clock.advance(max(waiting[0].due - as_datetime(self.clock.us), timedelta(0)))
            self.run(lambda job: ValueError("broken"), **options)

    def wait(self) -> timedelta:
        """How long the job waits now."""
        [job] = self.topic.list("delayed")
        assert job.due is not None
        return job.due - as_datetime(self.clock.us)

    def dead(self) -> tarry.JobInfo[Any]:
        [job] = self.topic.list("dead")
        return job


@pytest.fixture
def play(valkey_url: str, namespace: str) -> Any:
    made = Play(valkey_url, namespace)
    yield made
    assert made.topic.check().ok
    made.client.close()


@pytest.mark.parametrize(
    ("retry", "wait"), [("2s", 2), (5, 5), (0.5, 0.5), (timedelta(seconds=3), 3), ("3h", 3 * 3600)]
)
def test_a_duration_as_retry_is_how_long_each_retry_waits(play: Play, retry: tarry.types.Duration, wait: float) -> None:
    play.topic.add("tea", max_attempts=3)
    play.run(lambda job: ValueError("broken"), retry=retry)
    for _ in range(2):
        assert play.wait() == timedelta(seconds=wait)
        play.clock.advance(play.wait())
        play.run(lambda job: ValueError("broken"), retry=retry)
    assert play.dead().attempts == 3


@pytest.mark.parametrize("plain", [False, True])
def test_the_back_off_doubles_until_the_job_is_dead(play: Play, plain: bool) -> None:
    play.topic.add("tea", max_attempts=4)
    for n in range(3):
        play.run(lambda job: ValueError("broken"), plain=plain)
        assert 0.8 <= play.wait() / timedelta(seconds=2**n) <= 1.2
        play.clock.advance(play.wait())
    play.run(lambda job: ValueError("broken"), plain=plain)
    job = play.dead()
    assert play.attempts == [1, 2, 3, 4]
    assert (job.reason, job.attempts) == ("attempts exhausted", 4)
    assert str(job.error).startswith("ValueError: broken\nTraceback (most recent call last):")
    assert str(job.error).endswith("raise raises(job)\nValueError: broken")


@pytest.mark.parametrize("plain", [False, True])
def test_the_limit_of_a_handler_is_known_to_get_and_to_the_dashboard(play: Play, plain: bool) -> None:
    play.topic.add("tea")
    play.run(lambda job: ValueError("broken"), plain=plain, max_attempts=2)
    [job] = play.topic.list("delayed")
    assert (job.attempts, job.effective_max_attempts, job.max_attempts) == (1, 2, None)
    play.clock.advance(play.wait())
    play.run(lambda job: ValueError("broken"), plain=plain, max_attempts=2)
    job = play.dead()
    assert (job.reason, job.attempts, job.effective_max_attempts) == ("attempts exhausted", 2, 2)
    assert [failed.error for failed in job.failed_attempts] == ["ValueError: broken"] * 2, "the last one, too"
    assert answers.JOB.dump(job).effective_max_attempts == 2
    facts = JobFacts(job, play.topic.stats(), play.topic.configure(), (), False, 0, None)
    assert facts.of == " of 2"


@pytest.mark.parametrize("kind", ["async", "plain", "middleware"])
@pytest.mark.parametrize("name", GROUPS)
def test_a_group_means_the_one_exception_in_it_by_which_handlers_decide(play: Play, name: str, kind: str) -> None:
    faults, wanted = GROUPS[name]
    play.topic.add(1, id="1")
    seen: list[BaseException] = []

    async def note(job: Any, handle: Any) -> Any:
        try:
            return await handle(job)
        except Exception as fault:
            seen.append(fault)
            raise

    play.run(
        lambda job: ExceptionGroup("of tasks", faults),
        plain=kind == "plain",
        around=note if kind == "middleware" else None,
    )
    job = play.topic.get("1")
    assert job is not None
    assert (job.state, job.attempts, job.reason) == wanted
    if kind == "middleware":
        [fault] = seen
        assert isinstance(fault, (tarry.Snooze, tarry.Pause, tarry.Retry, tarry.JobDied)) is (
            name not in ("mixed", "other")
        )


def test_the_limit_of_a_handler_is_known_to_the_dashboard_while_its_first_attempt_runs(
    valkey_url: str, namespace: str
) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    begun, end = asyncio.Event(), asyncio.Event()

    @worker.task(max_attempts=2)
    async def charge() -> None:
        begun.set()
        await end.wait()

    @worker.task
    async def thank() -> None:
        pass

    @worker.task(max_attempts=None)
    async def insist() -> None:
        pass

    @worker.on("teas", max_attempts=3)
    async def brew(body: str) -> None:
        pass

    async def limit_of(topic: str, id: str) -> str:
        handle = worker.async_client.topic(topic)
        job, stats, settings = await asyncio.gather(handle.get(id), handle.stats(), handle.configure())
        assert job is not None
        return JobFacts(job, stats, settings, await worker.async_client.workers(), False, 0, None).of

    async def work() -> None:
        charged = await charge.add_async()
        thanked = await thank.options(delay="1h").add_async()
        insisted = await insist.options(delay="1h").add_async()
        tea = await worker.async_client.topic("teas").add("green", delay="1h")
        async with worker:
            await begun.wait()
            await asyncio.to_thread(until, worker.client.workers, "the worker's first report")
            assert await limit_of("shop", charged.id) == " of 2"
            assert await limit_of("shop", thanked.id) == " of 20"
            assert await limit_of("shop", insisted.id) == ""
            assert await limit_of("teas", tea.id) == " of 3"
            end.set()

    asyncio.run(work())


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("own", "handlers"), [(1, 5), (3, 1)])
def test_the_attempts_of_a_job_win_over_its_handlers(play: Play, own: int, handlers: int, plain: bool) -> None:
    play.topic.add("tea", max_attempts=own)
    play.run_until_dead(max_attempts=handlers, plain=plain)
    assert (play.dead().attempts, play.dead().effective_max_attempts) == (own, own)


@pytest.mark.parametrize(
    ("topics", "handlers", "plain"),
    [(1, 3, False), (1, 3, True), (3, 1, False), (3, 1, True), (None, 2, True), (UNSET, 22, False)],
)
def test_the_attempts_of_a_handler_win_over_the_topics(play: Play, topics: Any, handlers: int, plain: bool) -> None:
    play.topic.configure(max_attempts=topics)
    play.topic.add("tea")
    play.run_until_dead(max_attempts=handlers, plain=plain)
    assert (play.dead().attempts, play.dead().effective_max_attempts) == (handlers, handlers)


def test_a_job_without_a_limit_has_none_from_its_handler(play: Play) -> None:
    play.topic.add("tea", max_attempts=None)
    play.run(lambda job: ValueError("broken"), max_attempts=1)
    [job] = play.topic.list("delayed")
    assert (job.attempts, job.effective_max_attempts) == (1, None)


def test_past_the_limit_of_the_topic_an_attempt_that_nobody_ends_is_the_last(play: Play) -> None:
    play.topic.configure(max_attempts=2)
    play.topic.add("tea")
    for _ in range(2):
        play.run(lambda job: ValueError("broken"), max_attempts=9)
        play.clock.advance(play.wait())
    assert play.topic.pop(ttr="1s") is not None, "the handler allows more"
    play.clock.advance("1m")
    assert play.topic.pop() is None
    assert (play.dead().reason, play.dead().attempts) == ("attempts exhausted", 3)


def test_the_reason_of_a_retried_job_is_its_exception(play: Play) -> None:
    play.topic.add("tea", id="7")
    play.run(lambda job: KeyError("测试"))
    job = play.topic.get("7")
    assert job is not None
    assert (job.state, job.reason) == ("delayed", "KeyError: '测试'")
    assert "raise raises(job)" in str(job.error)


def test_the_log_says_when_a_failed_job_runs_again(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    play.topic.add("tea", id="7", max_attempts=2)
    play.run(lambda job: ValueError("broken"), retry=0)
    assert "↻ n/7 attempt 1 failed: ValueError: broken; again in 0s" in caplog.messages


def test_a_custom_back_off_is_used(play: Play) -> None:
    play.topic.add("tea")
    mine = tarry.BackOff(first="10s", factor=3, longest="1m", jitter=0)
    for seconds in (10, 30, 60, 60):
        play.run(lambda job: ValueError(), retry=mine)
        assert play.wait() == timedelta(seconds=seconds)
        play.clock.advance(seconds)
    assert [retry_delay_us(tarry.BackOff("10s", longest="1m"), 9, drawn) for drawn in (0.0, 1.0)] == [
        48_000_000,
        60_000_000,
    ]


def test_a_back_off_may_depend_on_the_exception_type(play: Play) -> None:
    policy = {OSError: "5m", ConnectionError: tarry.BackOff("7s", jitter=0), PermissionError: None}
    for kind, seconds in ((ConnectionResetError, 7), (FileNotFoundError, 300)):
        play.topic.add("tea", id="7", if_exists="replace")
        play.run(lambda job, kind=kind: kind("no"), retry=policy)
        assert play.wait() == timedelta(seconds=seconds)
    play.topic.add("tea", id="7", if_exists="replace")
    play.run(lambda job: ValueError("not in the map"), retry=policy)
    assert timedelta(seconds=0.8) <= play.wait() <= timedelta(seconds=1.2)
    play.topic.add("tea", id="7", if_exists="replace")
    play.run(lambda job: PermissionError("never"), retry=policy)
    assert play.dead().reason == "PermissionError: never"


@pytest.mark.parametrize("plain", [False, True])
def test_an_exception_as_retry_is_the_only_one_that_is_retried(play: Play, plain: bool) -> None:
    for retry, retried in [
        (ConnectionError, [ConnectionError, ConnectionResetError]),
        ((KeyError, TimeoutError), [KeyError, TimeoutError]),
        (Exception, [KeyError, ValueError]),
    ]:
        for kind in retried:
            play.topic.add("tea", id="7", if_exists="replace")
            play.run(lambda job, kind=kind: kind("later"), retry=retry, plain=plain)
            assert timedelta(seconds=0.8) <= play.wait() <= timedelta(seconds=1.2)
        if retry is Exception:
            continue
        play.topic.add("tea", id="7", if_exists="replace")
        play.run(lambda job: OSError("another"), retry=retry, plain=plain)
        assert play.dead().reason == "OSError: another"


def test_an_exception_as_retry_leaves_the_handlers_own_verdict_and_a_body_for_the_next_worker(play: Play) -> None:
    play.topic.add("tea", id="7")
    play.run(lambda job: tarry.Retry(), retry=ConnectionError)
    assert timedelta(seconds=0.8) <= play.wait() <= timedelta(seconds=1.2)
    play.topic.add("tea", id="7", if_exists="replace")
    play.run(lambda job: tarry.BodyError("another release reads it"), retry=ConnectionError)
    assert timedelta(seconds=0.8) <= play.wait() <= timedelta(seconds=1.2)


class Choosing:
    def __call__(self, _job: Any, _fault: Exception) -> int:
        return 7


async def awaited_choice(job: Any, fault: Exception) -> int:
    return 7


@cases(
    ("retry", "words"),
    [
        (tarry.BackOff, r"BackOff is a class; give one that is made, such as tarry.BackOff\("),
        (Choosing, "Choosing is a class"),
        (awaited_choice, "an async def is not awaited"),
        (lambda job: 7, "called with the job and the exception: too many positional arguments"),
        ((), r"retry: \(\); give a duration, a BackOff, an exception or a tuple of them, "),
        ((ConnectionError, "2s"), "give a duration, a BackOff, an exception or a tuple of them, "),
        ([ConnectionError], "give a duration, a BackOff, an exception or a tuple of them, "),
        (tarry.Retry, r"retry: Retry is what a function raises for one job, .*retry=ConnectionError, .*BackOff"),
        (tarry.Bury, "retry: Bury is what a function raises for one job"),
        ((ConnectionError, tarry.Snooze), "retry: Snooze is what a function raises for one job"),
        ({tarry.JobDied: "2s"}, "retry: JobDied is what a function raises for one job"),
    ],
)
def test_a_retry_that_would_fail_at_the_first_failure_is_refused(retry: Any, words: str) -> None:
    registry = tarry.Registry()
    with pytest.raises(tarry.BadInput, match=words):
        registry.on("n", retry=retry)
    with pytest.raises(tarry.BadInput, match=words):
        registry.task(retry=retry)


@pytest.mark.parametrize("retry", [Choosing(), lambda job, fault: 7, lambda *both: 7, max])
def test_anything_that_can_be_called_with_both_is_a_retry(retry: Any) -> None:
    tarry.Registry().on("n", retry=retry)


def test_a_back_off_may_be_a_function(play: Play) -> None:
    play.topic.add("tea")

    def policy(job: Any, fault: Exception) -> str | None:
        return None if job.attempt == 2 else f"{len(str(fault))}m"

    play.run(lambda job: ValueError("four"), retry=policy)
    assert play.wait() == 4 * MINUTE
    play.clock.advance("4m")
    play.run(lambda job: ValueError("four"), retry=policy)
    assert play.dead().reason == "ValueError: four"


def test_a_failing_retry_policy_loses_no_job(play: Play) -> None:
    play.topic.add("tea", id="7")
    play.run(lambda job: ValueError("first"), retry=lambda job, fault: 1 / 0)
    job = play.topic.get("7")
    assert job is not None
    assert (job.state, job.reason) == ("delayed", "ValueError: first")
    assert "ZeroDivisionError" in str(job.error)
    assert "ValueError: first" in str(job.error)


def test_retry_sets_the_delay(play: Play) -> None:
    play.topic.add("tea", max_attempts=2)
    play.run(lambda job: tarry.Retry("not yet", after="5m"))
    assert play.wait() == 5 * MINUTE
    play.clock.advance("5m")
    play.run(lambda job: tarry.Retry(after="5m"))
    assert play.dead().attempts == 2, "its attempts count"


def test_retry_without_a_time_uses_the_back_off(play: Play) -> None:
    play.topic.add("tea")
    play.run(lambda job: tarry.Retry(), retry=tarry.BackOff("9s", jitter=0))
    assert play.wait() == timedelta(seconds=9)


@pytest.mark.parametrize(
    ("retry", "wait"),
    [
        ({tarry.Retry: "9s"}, 9),
        ({Exception: "9s", ValueError: None}, 9),
        ({Exception: None}, 1),
        (lambda job, error: 9 if isinstance(error, tarry.Retry) else None, 9),
        (lambda job, error: None, 1),
    ],
)
def test_a_policy_sees_a_retry_without_a_time_and_never_makes_it_dead(play: Play, retry: Any, wait: float) -> None:
    play.topic.add("tea")
    play.run(lambda job: tarry.Retry(), retry=retry)
    assert abs(play.wait().total_seconds() / wait - 1) <= 0.2


def test_bury_makes_the_job_dead_at_once_with_the_reason(play: Play) -> None:
    play.topic.add("tea")

    def fault(job: Any) -> Exception:
        given = tarry.Bury("no such customer")
        given.__cause__ = LookupError(7)
        return given

    play.run(fault)
    job = play.dead()
    assert (job.reason, job.attempts) == ("no such customer", 1)
    assert str(job.error).endswith("LookupError: 7")


def test_snooze_does_not_count_an_attempt(play: Play) -> None:
    play.topic.add("tea", max_attempts=1)
    for _ in range(5):
        play.run(lambda job: tarry.Snooze("1h"))
        assert play.wait() == 60 * MINUTE
        play.clock.advance("1h")
    assert play.attempts == [1] * 5


def test_a_handler_may_limit_attempts(play: Play) -> None:
    play.topic.add("tea")
    play.run(lambda job: ValueError("x"), max_attempts=1)
    assert play.dead().reason == "attempts exhausted"


def test_a_long_traceback_keeps_its_end(play: Play) -> None:
    def deep(n: int) -> Exception:
        if n:
            return deep(n - 1)
        raise ValueError("测" * 20_000 + " the end")

    play.topic.add("tea", id="7")
    play.run(lambda job: deep(100))
    job = play.topic.get("7")
    assert job is not None
    assert str(job.reason).startswith("ValueError: 测测")
    assert str(job.reason).endswith("…")
    assert str(job.error).endswith("测 the end")
    assert len(str(job.error).encode()) <= LONGEST_ERROR + 8


@pytest.mark.parametrize("raised", [SystemExit(1), asyncio.CancelledError(), GeneratorExit()])
@pytest.mark.parametrize("plain", [False, True])
def test_any_exception_of_a_handler_fails_its_job(play: Play, raised: BaseException, plain: bool) -> None:
    play.topic.add("tea", id="7")
    play.run(lambda job: raised, plain=plain)
    job = play.topic.get("7")
    assert job is not None
    assert (job.state, job.attempts) == ("delayed", 1)
    assert str(job.reason).startswith(type(raised).__name__)


@pytest.mark.parametrize(
    "retry", [{int: 1}, {ValueError: "soon"}, "soon", -1, True, b"2s", {ValueError: -1}, tarry.BackOff], ids=str
)
def test_an_invalid_retry_policy_is_refused(play: Play, retry: Any) -> None:
    worker = tarry.Worker("shop", url=play.url)
    if retry is tarry.BackOff:
        with pytest.raises(tarry.BadInput, match="factor"):
            tarry.BackOff(factor=0.5)
    else:
        with pytest.raises(tarry.BadInput, match="retry"):
            worker.on("n", retry=retry)


def test_retry_and_snooze_take_durations() -> None:
    assert tarry.Retry(after="5m").after_us == 300 * SECOND
    with pytest.raises(tarry.BadInput):
        tarry.Snooze("soon")
    with pytest.raises(tarry.BadInput, match=r"^Snooze: -5m is negative\.$"):
        tarry.Snooze("-5m")
