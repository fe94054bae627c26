"""Redisson's rule for when to look, as the article has it, row by row."""

from __future__ import annotations

import pytest

from tarry.errors import BadInput
from tarry.verbs.mapcache.evicting import LATCH_LOST, AdaptivePolicy, Pace, next_pace

ARTICLE = AdaptivePolicy()
SLOWER = [5, 5, 7, 10, 15, 22, 33, 49, 73, 109, 163, 244, 366, 549, 823, 1234, 1800, 1800]


@pytest.mark.parametrize(
    ("pace", "found", "then"),
    [
        # nothing is learned from fewer than three looks
        (Pace(5, ()), 0, Pace(5, (0,))),
        (Pace(5, (0,)), 0, Pace(5, (0, 0))),
        # ever less: half as long again
        (Pace(5, (30, 20)), 10, Pace(7, (20, 10))),
        (Pace(1800, (30, 20)), 10, Pace(1800, (20, 10))),
        (Pace(1500, (3, 2)), 1, Pace(1800, (2, 1))),
        # less, but not ever less
        (Pace(5, (30, 20)), 20, Pace(5, (20, 20))),
        (Pace(5, (20, 30)), 10, Pace(5, (30, 10))),
        # ever more: as it is
        (Pace(80, (10, 20)), 30, Pace(80, (20, 30))),
        # three times nothing: half as long again
        (Pace(5, (0, 0)), 0, Pace(7, (0, 0))),
        (Pace(1234, (0, 0)), 0, Pace(1800, (0, 0))),
        # three times all that may be: a quarter
        (Pace(80, (100, 100)), 100, Pace(20, (100, 100))),
        (Pace(7, (100, 100)), 100, Pace(5, (100, 100))),
        (Pace(1800, (200, 200)), 200, Pace(450, (200, 200))),
        # three times the same, but neither
        (Pace(80, (99, 99)), 99, Pace(80, (99, 99))),
        # another had the latch, or it failed: nothing is learned
        (Pace(80, (30, 20)), LATCH_LOST, Pace(80, (30, 20))),
        (Pace(80, (0, 0)), None, Pace(80, (0, 0))),
    ],
)
def test_the_rule(pace: Pace, found: int | None, then: Pace) -> None:
    assert next_pace(ARTICLE, pace, found) == then


def test_an_idle_map_is_looked_at_ever_more_seldom() -> None:
    pace, delays = ARTICLE.begin(), []
    for _ in range(18):
        pace = next_pace(ARTICLE, pace, 0)
        delays.append(pace.delay_s)
    assert delays == SLOWER


def test_minimum_maximum_and_amount_are_options() -> None:
    rule = AdaptivePolicy(minimum="1s", maximum="3s", amount=10)
    assert rule.begin() == Pace(1, ())
    assert next_pace(rule, Pace(2, (0, 0)), 0).delay_s == 3
    assert next_pace(rule, Pace(3, (0, 0)), 0).delay_s == 3
    assert next_pace(rule, Pace(3, (10, 10)), 10).delay_s == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minimum": 0}, "minimum"),
        ({"minimum": 10, "maximum": 5}, "minimum"),
        ({"amount": 0}, "amount"),
        ({"amount": 5000}, "amount"),
        ({"amount": True}, "amount"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        AdaptivePolicy(**options)  # type: ignore[arg-type]
