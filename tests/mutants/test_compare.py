"""The comparison of two commits by new faults: what is tried next, and what it says in the end. The trying itself takes hours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mutants import compare

NOTICED, SURVIVED = {"by": "tests/a.py::test_b"}, {"by": None}


def record(**verdicts: dict[str, Any]) -> dict[str, Any]:
    faults = {name: {"file": f"{name}.py", "old": "1", "new": "2"} for name in verdicts}
    return {"before": "b", "after": "a", "faults": faults, "verdicts": verdicts}


def test_the_later_tests_are_asked_first_then_the_earlier_ones_about_what_survived() -> None:
    begun = record(noticed={"after": NOTICED}, survived={"after": SURVIVED}, new={})
    assert compare.left(begun) == [("after", "new"), ("before", "survived"), ("before", "new"), ("before", "noticed")]


@pytest.mark.parametrize(
    ("before", "after", "said", "code"),
    [
        (NOTICED, NOTICED, "one one.py: tests/a.py::test_b -> tests/a.py::test_b", 0),
        (SURVIVED, NOTICED, "one one.py: SURVIVED -> tests/a.py::test_b", 0),
        (SURVIVED, SURVIVED, "one one.py: SURVIVED -> SURVIVED", 0),
        (NOTICED, SURVIVED, "WORSE one one.py: tests/a.py::test_b -> SURVIVED", 1),
        (None, SURVIVED, "one one.py: ? -> SURVIVED", 2),
    ],
)
def test_each_fault_has_both_verdicts(before: Any, after: Any, said: str, code: int) -> None:
    row = {"after": after} if before is None else {"before": before, "after": after}
    text, ended = compare.table(record(one=row))
    assert (text.splitlines()[0], ended) == (said, code)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three faults in two columns the third verdict is interrupted."""
    tried: list[tuple[str, str]] = []

    class Tried:
        def __init__(self, _folder: Path, revision: str) -> None:
            self.revision = revision

        def judge(self, fault: dict[str, str], _known: list[str], _asked: list[str]) -> dict[str, Any]:
            tried.append((self.revision, fault["file"]))
            if len(tried) == 3:
                raise KeyboardInterrupt
            return NOTICED

    monkeypatch.setattr(compare, "Tree", Tried)
    monkeypatch.setattr(compare, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["compare", "--seed", "7"])
    compare.write(tmp_path / "7.json", record(x={}, y={}, z={}))
    with pytest.raises(KeyboardInterrupt):
        compare.main()
    assert compare.main() == 0
    again = [("a", "z.py"), ("b", "x.py"), ("b", "y.py"), ("b", "z.py")]
    assert tried == [("a", "x.py"), ("a", "y.py"), ("a", "z.py"), *again]
    assert json.loads((tmp_path / "7.json").read_text())["verdicts"]["z"] == {"after": NOTICED, "before": NOTICED}


def test_runs_with_one_seed_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one begins while the first tries its first fault, and ends before it."""
    tried: list[str] = []
    ended: list[int] = []

    class Tried:
        def __init__(self, _folder: Path, revision: str) -> None:
            self.revision = revision

        def judge(self, fault: dict[str, str], _known: list[str], _asked: list[str]) -> dict[str, Any]:
            tried.append(f"{self.revision} {fault['file']}")
            if len(tried) == 1:
                ended.append(compare.main())
            return NOTICED

    monkeypatch.setattr(compare, "Tree", Tried)
    monkeypatch.setattr(compare, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["compare", "--seed", "7"])
    compare.write(tmp_path / "7.json", record(x={}, y={}))
    ended.append(compare.main())
    assert tried == ["a x.py", "a y.py", "b x.py", "b y.py"]
    assert ended == [2, 0]
    assert compare.left(compare.read(tmp_path / "7.json")) == []
