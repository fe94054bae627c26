"""Redisson's rule for when to look, as the article has it, row by row."""

from __future__ import annotations

import pytest

from tarry.errors import BadInput
from tarry.verbs.redisson.mapcache.eviction import LATCH_LOST, AdaptivePolicy, EvictionPace, first_pace, next_pace
from walked import cases

ARTICLE = AdaptivePolicy()
SLOWER = [5, 5, 7, 10, 15, 22, 33, 49, 73, 109, 163, 244, 366, 549, 823, 1234, 1800, 1800]


@cases(
    ("pace", "found", "then"),
    [
        # nothing is learned from fewer than three looks
        (EvictionPace(5, ()), 0, EvictionPace(5, (0,))),
        (EvictionPace(5, (0,)), 0, EvictionPace(5, (0, 0))),
        # ever less: half as long again
        (EvictionPace(5, (30, 20)), 10, EvictionPace(7, (20, 10))),
        (EvictionPace(1800, (30, 20)), 10, EvictionPace(1800, (20, 10))),
        (EvictionPace(1500, (3, 2)), 1, EvictionPace(1800, (2, 1))),
        # less, but not ever less
        (EvictionPace(5, (30, 20)), 20, EvictionPace(5, (20, 20))),
        (EvictionPace(5, (20, 30)), 10, EvictionPace(5, (30, 10))),
        # ever more: as it is
        (EvictionPace(80, (10, 20)), 30, EvictionPace(80, (20, 30))),
        # three times nothing: half as long again
        (EvictionPace(5, (0, 0)), 0, EvictionPace(7, (0, 0))),
        (EvictionPace(1234, (0, 0)), 0, EvictionPace(1800, (0, 0))),
        # three times all that may be: a quarter
        (EvictionPace(80, (100, 100)), 100, EvictionPace(20, (100, 100))),
        (EvictionPace(7, (100, 100)), 100, EvictionPace(5, (100, 100))),
        (EvictionPace(1800, (200, 200)), 200, EvictionPace(450, (200, 200))),
        # three times the same, but neither
        (EvictionPace(80, (99, 99)), 99, EvictionPace(80, (99, 99))),
        # another had the latch, or it failed: nothing is learned
        (EvictionPace(80, (30, 20)), LATCH_LOST, EvictionPace(80, (30, 20))),
        (EvictionPace(80, (0, 0)), None, EvictionPace(80, (0, 0))),
    ],
)
def test_the_next_delay_follows_redissons_rule(pace: EvictionPace, found: int | None, then: EvictionPace) -> None:
    assert next_pace(ARTICLE, pace, found) == then


def test_an_idle_map_is_checked_less_and_less_often() -> None:
    pace, delays = first_pace(ARTICLE), []
    for _ in range(18):
        pace = next_pace(ARTICLE, pace, 0)
        delays.append(pace.delay_s)
    assert delays == SLOWER


def test_minimum_maximum_and_amount_can_be_configured() -> None:
    rule = AdaptivePolicy(minimum="1s", maximum="3s", amount=10)
    assert first_pace(rule) == EvictionPace(1, ())
    assert next_pace(rule, EvictionPace(2, (0, 0)), 0).delay_s == 3
    assert next_pace(rule, EvictionPace(3, (0, 0)), 0).delay_s == 3
    assert next_pace(rule, EvictionPace(3, (10, 10)), 10).delay_s == 1


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
def test_an_invalid_policy_is_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        AdaptivePolicy(**options)  # type: ignore[arg-type]
