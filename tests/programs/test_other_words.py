"""Words of other libraries: each is answered with one line that names tarry's word, and stays an error."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import tarry

registry = tarry.Registry()


@registry.task
def remind(user: int, text: str = "") -> None: ...


task: Any = remind
client: Any = tarry.Client


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: getattr(tarry, "Queue"), AttributeError, "client.topic"),  # noqa: B009  # mypy refuses it
        (lambda: task.delay(7), AttributeError, "add"),
        (lambda: task.apply_async((7,), countdown=5), AttributeError, "options(delay="),
        (lambda: task.options(id="7").delay(7), AttributeError, "add"),
        (lambda: task.options(id="7").apply_async(), AttributeError, "add"),
        (lambda: task.queue, AttributeError, "topic_name"),
        (lambda: task.options(countdown=5), TypeError, "delay="),
        (lambda: task.options(eta=None), TypeError, "at="),
        (lambda: task.options(queue="mails"), TypeError, "topic="),
        (lambda: task.add(7, countdown=5), tarry.BadInput, "options("),
        (lambda: task.add(7, delay=5), tarry.BadInput, "options("),
        (lambda: registry.task(queue="mails"), TypeError, "topic="),  # type: ignore[call-overload]
        (lambda: registry.on("mails", queue="mails"), TypeError, "topic="),  # type: ignore[call-arg]
        (lambda: registry.every("5m", countdown=5), TypeError, "delay="),  # type: ignore[call-arg]
        (lambda: registry.cron("* * * * *", queue="mails"), TypeError, "topic="),  # type: ignore[call-arg]
        (lambda: tarry.Client("redis://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
        (lambda: tarry.AsyncClient("redis://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
        (lambda: tarry.HTTPClient("http://none").queue("mails"), AttributeError, "topic("),  # type: ignore[attr-defined]
    ],
)
def test_a_word_of_another_library_is_answered_with_tarrys(call: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error) as told:
        call()
    text = str(told.value)
    assert "tarry's word is" in text
    assert word in text.partition("tarry's word is")[2]
    assert "\n" not in text


@pytest.mark.parametrize(
    ("owner", "name"), [(remind, "delay"), (remind, "apply_async"), (tarry, "Queue"), (tarry.Client, "queue")]
)
def test_none_of_them_exists(owner: object, name: str) -> None:
    assert not hasattr(owner, name)
    assert "__getattr__" not in vars(type(owner))


def test_an_argument_of_the_task_of_such_a_name_is_its_own() -> None:
    @registry.task
    def move(queue: str, countdown: int = 0) -> None: ...

    assert move.body("mails", countdown=5)["args"] == {"queue": "mails", "countdown": 5}
    with pytest.raises(tarry.BadInput, match=r"missing a required argument: 'queue'\.$"):
        move.add(countdown=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("verb", [remind.options, registry.on, registry.task, registry.every, registry.cron])
def test_no_signature_shows_them(verb: Any) -> None:
    kinds = {parameter.kind for parameter in inspect.signature(verb).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
