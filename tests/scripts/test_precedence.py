"""Which value of a setting counts: one function says it, and the scripts agree with it."""

from __future__ import annotations

from datetime import timedelta
from itertools import combinations

import pytest

from tarry.verbs.jobs import precedence
from tarry.verbs.jobs.precedence import LEVELS, MAX_ATTEMPTS, MAX_LATENESS, TTR, Decision, Setting, decide

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("setting", precedence.SETTINGS, ids=lambda one: one.name)
def test_the_most_specific_value_that_is_given_counts(setting: Setting) -> None:
    levels = [level for level in LEVELS if level in setting.given_by]
    assert list(setting.given_by) == levels, "they stand in order, the most specific first"
    assert decide(setting, {}) == (setting.default, "default")
    for specific, general in combinations(levels, 2):
        if specific not in setting.smallest:
            assert decide(setting, {general: 1, specific: 2}) == (2, specific)
        assert decide(setting, {specific: 1, general: 2}) == (1, specific)


def test_of_equal_levels_the_smallest_value_counts() -> None:
    assert decide(MAX_LATENESS, {"topic": SECOND, "handler": 2 * SECOND}) == (SECOND, "topic")
    assert decide(MAX_LATENESS, {"topic": 3 * SECOND, "handler": 2 * SECOND}) == (2 * SECOND, "handler")
    assert decide(MAX_LATENESS, {"topic": SECOND}) == (SECOND, "topic")


def test_none_is_a_value_only_where_it_means_something() -> None:
    assert decide(MAX_ATTEMPTS, {"job": None, "topic": 3}) == Decision(None, "job")
    assert decide(TTR, {"job": None, "topic": SECOND}) == Decision(SECOND, "topic")
