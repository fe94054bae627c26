"""Flows that go in step, and how much of what they ask goes to a server at once."""

from __future__ import annotations

from typing import Any

from tarry.clients.portions import portions_of
from tarry.core.flows import gather, intercept
from tarry.core.requests import Batch, Command, Flow, ask
from tarry.errors import BadInput, Unavailable
from tarry.values.keys import topic_keys
from tarry.verbs.jobs import by_id, settings

KEYS = topic_keys("default", "orders")


def word(name: str) -> Command[str]:
    return Command((name.encode(),), str)


def walk(*names: str) -> Flow[list[Any]]:
    found: list[Any] = []
    for name in names:
        found.append((yield from ask(word(name))))  # noqa: PERF401  # a comprehension cannot ask
    return found


def names_of(step: Any) -> list[str]:
    return [one.args[0].decode() for one in (step.requests if isinstance(step, Batch) else (step,))]


def performed(flow: Flow[Any], faults: dict[str, Exception] | None = None) -> tuple[Any, list[list[str]]]:
    """What came of it, and what was asked at once: each is answered by its name in capitals, or by its fault."""
    said: list[list[str]] = []
    answer: Any = None
    while True:
        try:
            step = flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)
        except StopIteration as end:
            return end.value, said
        except Exception as fault:  # noqa: BLE001  # it is what came of it
            return fault, said
        said.append(names_of(step))
        found = [(faults or {}).get(name, name.upper()) for name in said[-1]]
        answer = found if isinstance(step, Batch) else found[0]


def test_gathered_flows_advance_in_step() -> None:
    flows = [walk("a1", "a2", "a3"), walk(), walk("b1"), walk("c1", "c2")]
    answers, said = performed(gather(flows))
    assert answers == [["A1", "A2", "A3"], [], ["B1"], ["C1", "C2"]]
    assert said == [["a1", "b1", "c1"], ["a2", "c2"], ["a3"]]


def test_nested_gathered_flows_share_one_round_trip() -> None:
    inner = [gather([walk("a1", "a2"), walk("b1")]), gather([walk("c1")])]
    answers, said = performed(gather(inner))
    assert answers == [[["A1", "A2"], ["B1"]], [["C1"]]]
    assert said == [["a1", "b1", "c1"], ["a2"]]


def test_gathering_no_flows_sends_nothing() -> None:
    assert performed(gather([])) == ([], [])


def test_the_first_error_ends_all_flows_after_the_step() -> None:
    seen: list[Any] = []

    def tidy() -> Flow[None]:
        try:
            yield from walk("a1", "a2", "a3")
        finally:
            seen.append("ended")

    bad, worse = Unavailable("bad"), BadInput("worse")
    answer, said = performed(gather([tidy(), walk("b1", "b2", "b3"), walk("c1", "c2")]), {"b2": bad, "c2": worse})
    assert answer is bad
    assert said == [["a1", "b1", "c1"], ["a2", "b2", "c2"]]
    assert seen == ["ended"]


def test_a_flow_may_handle_its_error() -> None:
    def bearing() -> Flow[str]:
        try:
            yield from walk("a1")
        except Unavailable:
            return "borne"
        return "none"

    assert performed(gather([bearing(), walk("b1")]), {"a1": Unavailable("gone")})[0] == ["borne", ["B1"]]


def test_an_intercepted_flow_behaves_the_same() -> None:
    seen: list[Any] = []

    def take_answers(asked: Any, answers: Any) -> Any:
        seen.append((names_of(Batch(asked)), list(answers)))
        return [answer if isinstance(answer, Exception) else answer.lower() for answer in answers]

    def bearing() -> Flow[list[Any]]:
        try:
            return (yield from walk("c1", "c2"))
        except Unavailable:
            return ["borne"]

    gone = Unavailable("gone")
    flow = intercept(gather([walk("a1", "a2"), bearing()]), lambda one: word(names_of(one)[0] + "!"), take_answers)
    assert performed(flow, {"c1!": gone}) == ([["a1!", "a2!"], ["borne"]], [["a1!", "c1!"], ["a2!"]])
    assert seen == [(["a1!", "c1!"], ["A1!", gone]), (["a2!"], ["A2!"])]


# ── portions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def sizes(requests: list[Any], places: list[str] | None = None) -> list[list[int]]:
    found = portions_of(requests, places or ["here"] * len(requests))
    return [[len(portion) for portion in portions] for portions in found.values()]


def test_a_batch_portion_is_limited_to_the_work_of_one_script() -> None:
    assert sizes([word("k")] * 150) == [[64, 64, 22]], "requests"
    assert sizes([Command((b"SET", b"k", bytes(400_000)), int)] * 3) == [[2, 1]], "bytes"
    ids = [f"{n}" for n in range(300)]
    assert sizes([by_id.KICK.call(KEYS, ids)] * 5) == [[3, 2]], "jobs by their ids"
    assert sizes([next(settings.purge(KEYS, "dead"))] * 5) == [[2, 2, 1]], "steps that go through jobs"
    large = by_id.DELETE.call(KEYS, [f"{n}" for n in range(3000)])
    assert sizes([word("k"), large, word("k")]) == [[1, 1, 1]], "what is larger goes alone"


def test_each_server_gets_its_own_portions_in_order() -> None:
    requests = [word("k")] * 200
    found = portions_of(requests, ["here", "there"] * 100)
    assert {place: [at for portion in portions for at in portion] for place, portions in found.items()} == {
        "here": list(range(0, 200, 2)),
        "there": list(range(1, 200, 2)),
    }
    assert sizes(requests, ["here", "there"] * 100) == [[64, 36], [64, 36]]
