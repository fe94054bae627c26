"""Words of other libraries: each is answered with one line that names tarry's word, and stays an error."""

from __future__ import annotations

import asyncio
import inspect
import operator
import pickle
import sys
from collections.abc import Container, Iterable, Sized
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import tarry
from tarry.values.other_words import MISSING
from walked import cases

registry = tarry.Registry()


@registry.task
def remind(user: int, text: str = "") -> None: ...


task: Any = remind


def given(verb: Any, **options: Any) -> Any:
    return verb(**options)


client: Any = tarry.Client
orders: Any = tarry.Client("redis://none").topic("orders")
awaited_orders: Any = tarry.AsyncClient("redis://none").topic("orders")
HELD = tarry.Reservation("7", 1)
far_orders: Any = tarry.HTTPClient("http://none").topic("orders")
CLIENTS: list[Any] = [
    tarry.Client("redis://none"),
    tarry.AsyncClient("redis://none"),
    tarry.HTTPClient("http://none"),
    tarry.AsyncHTTPClient("http://none"),
]
RIVER = {"codec": "river"}
WAITING = [queue for one in CLIENTS for queue in (one.blocking_queue("q", **RIVER), one.guarded_queue("q"))]
QUEUES = [*WAITING, *[one.delayed_queue("q", **RIVER) for one in CLIENTS]]
MAPS: list[Any] = [one.map_cache("m", **RIVER) for one in CLIENTS[:2]]


async def perform(call: Any) -> None:
    found = call()
    if inspect.isawaitable(found):
        await found


@cases(
    ("call", "error", "word"),
    [
        (lambda: getattr(tarry, "Queue"), AttributeError, "client.topic"),  # noqa: B009  # mypy refuses it
        (lambda: task.delay(7), AttributeError, "add"),
        (lambda: task.apply_async((7,), countdown=5), AttributeError, "options(delay="),
        (lambda: task.options(id="7").delay(7), AttributeError, "add"),
        (lambda: task.options(id="7").apply_async(), AttributeError, "add"),
        (lambda: task.enqueue(7), AttributeError, "add"),
        (lambda: task.send(7), AttributeError, "options(delay="),
        (lambda: task.options(id="7").send(7), AttributeError, "add"),
        (lambda: task.queue, AttributeError, "topic_name"),
        (lambda: task.options(countdown=5), TypeError, "delay="),
        (lambda: task.options(eta=None), TypeError, "at="),
        (lambda: task.options(queue="mails"), TypeError, "topic="),
        (lambda: task.add(7, countdown=5), tarry.BadInput, "options("),
        (lambda: task.add(7, delay=5), tarry.BadInput, "options("),
        (lambda: registry.task(queue="mails"), TypeError, "topic="),  # type: ignore[call-overload]
        (lambda: given(registry.task, bind=True), TypeError, "tarry.current_job()"),
        (lambda: given(registry.task, autoretry_for=(OSError,)), TypeError, "retry={"),
        (lambda: given(registry.task, rate_limit="10/m"), TypeError, "topic.configure(rate="),
        (lambda: given(registry.task, max_retries=3), TypeError, "max_attempts="),
        (lambda: given(registry.task, acks_late=True), TypeError, "none: a job is always finished after"),
        (lambda: given(remind.options, task_id="7"), TypeError, "id="),
        (lambda: registry.on("mails", queue="mails"), TypeError, "topic="),  # type: ignore[call-arg]
        (lambda: registry.every("5m", countdown=5), TypeError, "delay="),  # type: ignore[call-arg]
        (lambda: registry.cron("* * * * *", queue="mails"), TypeError, "topic="),  # type: ignore[call-arg]
        (lambda: tarry.Client("redis://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
        (lambda: tarry.AsyncClient("redis://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
        (lambda: tarry.HTTPClient("http://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
        *[
            (partial(getattr(topic, verb), *given, **words), TypeError, word)
            for topic in (orders, awaited_orders, far_orders)
            for verb, given, words, word in [
                ("add", (7,), {"countdown": 5}, "delay="),
                ("add", (7,), {"eta": None}, "at="),
                ("add", (7,), {"queue": "mails"}, "client.topic("),
                ("add_many", ([7],), {"countdown": 5}, "delay="),
                ("pop", (), {"timeout": 5}, "wait="),
                ("pop", (), {"n": 5}, "pop_many"),
                ("pop", (), {"limit": 5}, "pop_many"),
                ("pop_many", (7,), {"timeout": 5}, "wait="),
                ("pop_many", (), {"n": 5}, "limit="),
                ("pop_many", (), {"count": 5}, "limit="),
            ]
        ],
        *[
            (partial(getattr(one, verb), "orders", **words), TypeError, word)
            for one in CLIENTS
            for verb, words, word in [
                ("pop", {"n": 5}, "pop_many"),
                ("pop", {"timeout": 5}, "wait="),
                ("pop_many", {"n": 5}, "limit="),
                ("pop_many", {"count": 5}, "limit="),
            ]
        ],
        *[(partial(queue.poll, 3), TypeError, "poll_many(limit)") for queue in QUEUES],
        *[(partial(queue.poll, count=3), TypeError, "poll_many(limit)") for queue in QUEUES],
        *[(partial(queue.poll, timeout=3), TypeError, "wait=") for queue in WAITING],
        *[(partial(queue.poll_many, n=3), TypeError, "limit=") for queue in QUEUES],
        *[(partial(queue.poll_many, 3, timeout=3), TypeError, "wait=") for queue in WAITING],
        *[(partial(getattr, one, "send_task"), AttributeError, '.add({"task": …') for one in CLIENTS],
        (lambda: given(registry.on, queue="mails"), TypeError, "topic="),
        (lambda: getattr(tarry, "shared_task"), AttributeError, "@registry.task"),  # noqa: B009  # mypy refuses it
        *[(partial(getattr, task, name), AttributeError, "options(delay=") for name in ("s", "si", "signature")],
        (lambda: task.retry(countdown=5), AttributeError, "raise tarry.Retry(after="),
        *[
            (partial(getattr, owner, name), AttributeError, word)
            for owner in (registry, tarry.Worker("shop", url="redis://none"))
            for name, word in [("send_task", "add"), ("control", "set_worker_mode"), ("conf", "tarry.Worker(")]
        ],
        *[
            (partial(getattr, kind.__new__(kind), name), AttributeError, word)
            for kind in (tarry.Job, tarry.AsyncJob)
            for name, word in [
                ("ack", "finish"),
                ("nack", "release"),
                ("retry", "release"),
                ("fail", "bury"),
                ("data", "body"),
                ("args", "body"),
                ("payload", "body"),
            ]
        ],
        (lambda: given(tarry.Retry, countdown=5), TypeError, "after="),
        *[
            (partial(getattr(topic, verb), *given, **words), TypeError, word)
            for topic in (orders, awaited_orders, far_orders)
            for verb, given, words, word in [
                ("add", (7,), {"group_id": "customer-7"}, "key="),
                ("add", (7,), {"depends_on": "6"}, "adds the next job"),
                ("configure", (), {"max_retries": 3}, "max_attempts="),
                ("configure", (), {"timeout": 3}, "ttr="),
            ]
        ],
        *[
            (partial(getattr, topic, "cancel"), AttributeError, "delete")
            for topic in (orders, awaited_orders, far_orders)
        ],
        (lambda: given(remind.options, depends_on="6"), TypeError, "adds the next job"),
        (lambda: given(registry.on, depends_on="6"), TypeError, "adds the next job"),
        (lambda: given(tarry.BackOff, exponential=True), TypeError, "factor="),
        (lambda: given(tarry.BackOff, max_delay=60), TypeError, "longest="),
        *[
            (partial(kind, **{word: "x"}), TypeError, "url=, such as redis://user:password@host:6379/0")
            for kind in (tarry.Client, tarry.AsyncClient)
            for word in ("db", "password", "host", "port")
        ],
        *[
            (partial(kind, **{word: "x"}), TypeError, tarrys)
            for kind in (tarry.HTTPClient, tarry.AsyncHTTPClient)
            for word, tarrys in [("host", "url="), ("password", "token=")]
        ],
        *[(partial(one.lock, "stock", timeout=5), TypeError, "wait=") for one in CLIENTS],
        *[(partial(operator.getitem, one, "a"), TypeError, "map.as_dict()") for one in MAPS],
        *[(partial(operator.setitem, one, "a", 1), TypeError, "map.as_dict()") for one in MAPS],
        *[(partial(operator.delitem, one, "a"), TypeError, "map.as_dict()") for one in MAPS],
        *[
            (partial(getattr, topic, name), AttributeError, "add")
            for topic in (orders, awaited_orders, far_orders)
            for name in ("push", "enqueue", "send", "put")
        ],
    ],
)
def test_a_word_of_another_library_is_answered_with_tarrys(call: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error) as told:
        asyncio.run(perform(call))
    text = str(told.value)
    assert "tarry's word is" in text
    assert word in text.partition("tarry's word is")[2]
    assert "\n" not in text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (tarry.Client, "Client is blocking: write `with`, or use AsyncClient"),
        (tarry.AsyncClient, "AsyncClient is awaited: write `async with`, or use Client"),
        (tarry.HTTPClient, "HTTPClient is blocking: write `with`, or use AsyncHTTPClient"),
        (tarry.AsyncHTTPClient, "AsyncHTTPClient is awaited: write `async with`, or use HTTPClient"),
    ],
)
def test_the_wrong_with_names_the_right_one_and_the_other_class(made: Any, text: str) -> None:
    client = made("http://none" if "HTTP" in made.__name__ else "redis://none")

    def enter() -> None:
        with client:
            pass

    async def enter_async() -> None:
        async with client:
            pass

    with pytest.raises(AttributeError) as told:
        enter() if "awaited" in text else asyncio.run(enter_async())
    assert str(told.value) == text
    assert not hasattr(client, "__enter__") or not hasattr(client, "__aenter__")
    assert isinstance(client, AbstractContextManager) is ("blocking" in text)


@pytest.mark.parametrize("verb", ["on", "on_queue", "every", "cron"])
def test_a_decorator_without_brackets_says_that_they_are_missing(verb: str) -> None:
    bare: Any = getattr(registry, verb)
    with pytest.raises(
        tarry.BadInput, match=rf"^@worker.{verb}: it needs an argument in brackets, such as @worker.{verb}\("
    ):

        @bare
        def handle() -> None: ...


@pytest.mark.parametrize("topic", [orders, awaited_orders, far_orders], ids=["sync", "async", "http"])
@pytest.mark.parametrize(
    ("verb", "given", "option"),
    [
        ("add", (7, 5), "delay"),
        ("add_many", ([7], 5), "delay"),
        ("pop", (5,), "wait"),
        ("pop_many", (7, 5), "wait"),
        ("touch", (HELD, 5), "ttr"),
        ("touch_many", ([HELD], 5), "ttr"),
        ("release", (HELD, 5), "delay"),
        ("release_many", ([HELD], 5), "delay"),
        ("bury", (HELD, "no"), "reason"),
        ("bury_many", ([HELD], "no"), "reason"),
    ],
)
def test_an_option_that_is_given_by_place_is_answered_with_its_name(
    topic: Any, verb: str, given: tuple[Any, ...], option: str
) -> None:
    name = type(topic).__name__
    places = f"takes {len(given)} positional arguments? but {len(given) + 1} were given"  # its own place is one
    with pytest.raises(TypeError, match=rf"^{name}\.{verb}\(\) {places}; give options by name, such as {option}=$"):
        asyncio.run(perform(partial(getattr(topic, verb), *given)))


@pytest.mark.parametrize("topic", [orders, awaited_orders, far_orders], ids=["sync", "async", "http"])
def test_an_option_that_is_required_is_named_too(topic: Any) -> None:
    with pytest.raises(TypeError, match=r"touch_holder\(\) missing 1 required keyword-only argument: 'ttr'$"):
        asyncio.run(perform(partial(topic.touch_holder, "me", 5)))


@pytest.mark.parametrize("kind", [tarry.Job, tarry.AsyncJob])
@pytest.mark.parametrize(("verb", "option"), [("touch", "ttr"), ("release", "delay"), ("bury", "reason")])
def test_an_option_of_a_job_that_is_given_by_place_is_answered_with_its_name(kind: Any, verb: str, option: str) -> None:
    with pytest.raises(TypeError, match=rf"{verb}\(\) takes .* given; give options by name, such as {option}=$"):
        asyncio.run(perform(partial(getattr(kind, verb), object.__new__(kind), 5)))


@pytest.mark.parametrize("topic", [orders, awaited_orders, far_orders], ids=["sync", "async", "http"])
def test_a_keyword_that_nobody_has_is_refused_as_python_does(topic: Any) -> None:
    words: list[tuple[str, tuple[object, ...], dict[str, object], str]] = [
        ("add", (7,), {"xyzzy": 1}, "got an unexpected keyword argument 'xyzzy'"),
        (
            "add_many",
            ([7],),
            {"headings": {}},
            "got an unexpected keyword argument 'headings'. Did you mean 'headers'?",
        ),
        ("pop", (), {"waits": 5}, "got an unexpected keyword argument 'waits'. Did you mean 'wait'?"),
        ("pop_many", (7,), {"xyzzy": None}, "got an unexpected keyword argument 'xyzzy'"),
    ]
    for verb, given, options, text in words:
        with pytest.raises(TypeError) as told:
            asyncio.run(perform(partial(getattr(topic, verb), *given, **options)))
        assert str(told.value) == f"{type(topic).__name__}.{verb}() {text}"


@cases(
    ("verb", "given", "options", "text"),
    [
        *[(one.pop_many, ("orders",), {"limit": 1, "xyzzy": 1}, "pop_many() got an unexpected") for one in CLIENTS],
        *[(one.pop_many, ("orders",), {}, "pop_many() missing 1 required argument: 'limit'") for one in CLIENTS],
        *[(one.poll_many, (), {}, "poll_many() missing 1 required argument: 'limit'") for one in QUEUES],
        *[(one.poll_many, (1,), {"xyzzy": 1}, "poll_many() got an unexpected") for one in QUEUES],
        *[(one.pop_many, (), {}, "pop_many() missing 1 required argument: 'limit'") for one in (orders, far_orders)],
        (orders.add, (), {}, "add() missing 1 required argument: 'body'"),
        (orders.add_many, (), {}, "add_many() missing 1 required argument: 'bodies'"),
        (tarry.Worker("shop", url="redis://none").on, ("mails",), {"xyzzy": 1}, "on() got an unexpected"),
        (tarry.Worker("shop", url="redis://none").every, (), {}, "every() missing 1 required argument: 'period'"),
        (registry.on, (), {}, "on() missing 1 required argument: 'topic'"),
        (registry.cron, (), {}, "cron() missing 1 required argument: 'expression'"),
    ],
)
def test_a_refusal_names_the_class_that_the_user_has(verb: Any, given: Any, options: Any, text: str) -> None:
    with pytest.raises(TypeError) as told:
        asyncio.run(perform(partial(verb, *given, **options)))
    assert str(told.value).startswith(f"{type(verb.__self__).__name__}.{text}")


@pytest.mark.parametrize("one", CLIENTS)
def test_what_is_missing_is_named_with_an_example(one: Any) -> None:
    for verb, text in [
        (one.topic, "topic() missing 1 required argument: 'name'; write client.topic(\"orders\")"),
        (one.lock, "lock() missing 1 required argument: 'name'; write client.lock(\"stock\")"),
    ]:
        with pytest.raises(TypeError) as told:
            verb()
        assert str(told.value) == f"{type(one).__name__}.{text}"


def test_an_unknown_keyword_of_a_class_names_the_class() -> None:
    for kind, word in [(tarry.Client, "urls"), (tarry.AsyncHTTPClient, "tokens"), (tarry.BackOff, "factors")]:
        made: Any = kind
        with pytest.raises(TypeError) as told:
            made(**{word: 1})
        text = f"{kind.__name__}() got an unexpected keyword argument {word!r}. Did you mean {word[:-1]!r}?"
        assert str(told.value) == text


PUBLIC = {
    value
    for module in (tarry, tarry.types, tarry.redisson)
    for value in (getattr(module, name) for name in module.__all__)
    if isinstance(value, type)
}


@cases("kind", sorted(PUBLIC, key=repr), ids=lambda kind: kind.__name__)
def test_an_error_of_pythons_names_a_class_that_users_see(kind: type) -> None:
    """It names a method by its ``__qualname__``."""
    seen = {one.__qualname__ for one in PUBLIC}
    members = [inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")]
    assert {one.__qualname__.rpartition(".")[0] for one in members if inspect.isfunction(one)} <= seen


def test_a_back_off_is_pickled_and_compared_by_its_values() -> None:
    made = tarry.BackOff("2s", 3, longest="1m", jitter=0)
    assert pickle.loads(pickle.dumps(made)) == made == replace(tarry.BackOff("9s", 3, "1m", 0), first="2s")
    with pytest.raises(tarry.BadInput, match="factor lies between"):
        tarry.BackOff(factor=0)


@pytest.mark.parametrize("one", MAPS)
def test_a_map_is_no_container(one: Any) -> None:
    """What is refused with a hint does not exist otherwise."""
    assert not {name for name in dir(one) if name in {"__getitem__", "__setitem__", "__delitem__"}}
    assert not hasattr(one, "__getitem__")
    assert not isinstance(one, (Iterable, Container, Sized))
    with pytest.raises(TypeError):
        list(one)
    with pytest.raises(TypeError):
        _ = "a" in one


def test_a_worker_is_given_a_name_before_its_server() -> None:
    wrong: Any = tarry.Client("redis://localhost")
    with pytest.raises(tarry.BadInput, match=r'^name: that is a URL; write tarry\.Worker\("shop", url=…\)') as told:
        tarry.Worker("redis://:secret@localhost")
    assert "secret" not in str(told.value)
    with pytest.raises(tarry.BadInput, match=r'^name: that is a client; write tarry\.Worker\("shop", client=…\)'):
        tarry.Worker(wrong)
    more: Any
    for more in ({"url": "redis://localhost"}, {"namespace": "mine"}):
        with pytest.raises(tarry.BadInput, match=r"^client: it has a server and a namespace of its own"):
            tarry.Worker("shop", client=wrong, **more)
    more = {"url": wrong}
    with pytest.raises(tarry.BadInput, match=r"^url: .* is not text; a client is given as client=\.$"):
        tarry.Worker("shop", **more)
    more = {"client": "redis://:secret@localhost"}
    with pytest.raises(tarry.BadInput, match=r"^client: a str; it is a tarry\.Client or tarry\.AsyncClient\.$"):
        tarry.Worker("shop", **more)


def test_pythons_own_guess_does_not_follow(capsys: pytest.CaptureFixture[str]) -> None:
    """It would guess from tarry's other words: ``enqueue`` … Did you mean: 'queue'?"""
    try:
        task.enqueue(7)
    except AttributeError as fault:
        sys.excepthook(type(fault), fault, fault.__traceback__)
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("owner", "name"),
    [(remind, "delay"), (remind, "apply_async"), (tarry, "Queue"), (tarry.Client, "queue"), (tarry.Topic, "push")],
)
def test_none_of_them_exists(owner: object, name: str) -> None:
    assert not hasattr(owner, name)
    assert "__getattr__" not in vars(type(owner))


@cases(
    ("owner", "names"),
    [
        *[
            (topic, {"push", "enqueue", "send", "put", "cancel"})
            for topic in (orders, awaited_orders, far_orders, tarry.Topic, tarry.AsyncTopic)
        ],
        *[
            (client, {"queue", "send_task"})
            for client in (tarry.Client, tarry.AsyncClient, tarry.HTTPClient, tarry.AsyncHTTPClient)
        ],
        (tarry.Client("redis://none"), {"queue", "send_task"}),
        *[
            (
                one,
                {"delay", "apply_async", "enqueue", "send", "send_with_options", "queue"}
                | {"s", "si", "signature", "retry"},
            )
            for one in (remind, tarry.Task)
        ],
        *[(one, {"send_task", "control", "conf"}) for one in (registry, tarry.Registry, tarry.Worker)],
        *[
            (
                kind,
                {"ack", "nack", "retry", "fail", "data", "args", "payload"}
                | {
                    "due_us",
                    "encoded",
                    "head",
                    "kept_steps",
                    "parts",
                    "popped_us",
                    "settled",
                    "ttr_us",
                },  # for tarry's modules
            )
            for kind in (tarry.Job, tarry.AsyncJob)
        ],
        *[(one, {"delay", "apply_async", "enqueue", "send"}) for one in (remind.options(), type(remind.options()))],
    ],
)
def test_dir_has_none_of_them_and_all_the_rest(owner: object, names: set[str]) -> None:
    kind = owner if isinstance(owner, type) else type(owner)
    of_all_classes = {name for one in kind.__mro__ for name in vars(one)}
    assert names <= of_all_classes
    assert (
        set(dir(owner)) == (of_all_classes | set(getattr(owner, "__dict__", {}) if owner is not kind else ())) - names
    )


def test_a_class_keeps_its_own_dir() -> None:
    class Own(tarry.Topic[Any]):
        def __dir__(self) -> list[str]:
            return ["own"]

    class Heir(Own): ...

    topic: Any = tarry.Client("redis://none").topic("orders")
    assert dir(Heir(topic.engine, topic.verbs)) == ["own"]


def test_an_argument_of_the_task_of_such_a_name_is_its_own() -> None:
    @registry.task
    def move(queue: str, countdown: int = 0) -> None: ...

    assert move.body("mails", countdown=5)["args"] == {"queue": "mails", "countdown": 5}
    with pytest.raises(tarry.BadInput, match=r"missing a required argument: 'queue'\.$"):
        move.add(countdown=5)  # type: ignore[call-arg]


@cases(
    "verb",
    [
        remind.options,
        registry.on,
        registry.task,
        registry.every,
        registry.cron,
        *[
            getattr(topic, verb)
            for topic in (orders, awaited_orders, far_orders)
            for verb in ("add", "add_many", "pop", "pop_many")
        ],
        *[getattr(queue, verb) for queue in QUEUES for verb in ("poll", "poll_many")],
    ],
)
def test_no_signature_shows_them(verb: Any) -> None:
    shown = inspect.signature(verb).parameters.values()
    assert not {one.kind for one in shown} & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    assert not any(one.default is MISSING for one in shown)


def test_awaited_verbs_are_coroutine_functions() -> None:
    assert inspect.iscoroutinefunction(awaited_orders.add)
    assert not inspect.iscoroutinefunction(orders.add)
