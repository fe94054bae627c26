"""A table that is one test names each row that fails (tests/walked.py)."""

from __future__ import annotations

import re

import pytest

from walked import cases, each


def test_each_row_that_fails_is_named_and_all_are_tried() -> None:
    tried = []

    @cases("one", [1, 2, 3])
    @cases(("two", "more"), [("a", 0), ("b", 5)], ids=str)
    def rule(one: int, two: str, more: int, fixture: str) -> None:
        tried.append((one, two, fixture))
        assert one + more < 7, "too much"

    with pytest.raises(pytest.fail.Exception) as told:
        rule(fixture="given")
    assert tried == [(one, two, "given") for one in (1, 2, 3) for two in "ab"]
    assert re.findall("^(.*): too much$", str(told.value), re.M) == ["2-b-5", "3-b-5"]


def test_a_case_without_an_answer_is_a_failure_of_its_name() -> None:
    @each(["a", "7"], "number {}".format)
    def rule(case: str) -> None:
        with pytest.raises(ValueError):
            int(case)

    with pytest.raises(pytest.fail.Exception, match=r"^number 7: DID NOT RAISE"):
        rule()


def test_what_hangs_is_the_last_that_is_tried() -> None:
    tried = []

    @cases("one", [1, 2])
    def rule(one: int) -> None:
        tried.append(one)
        pytest.fail("hangs: not over after 120 s", pytrace=False)

    with pytest.raises(pytest.fail.Exception, match=r"^1: hangs: not over"):
        rule()
    assert tried == [1]


def test_an_error_has_the_name_of_its_case() -> None:
    @cases("one", [1, 0])
    def rule(one: int) -> None:
        assert 1 / one

    with pytest.raises(ZeroDivisionError) as told:
        rule()
    assert told.value.__notes__ == ["of 0"]
