"""What is too much for one script goes in parts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.requests import MOST_BYTES, split_items

TEXTS = st.lists(st.sampled_from([1, 100, MOST_BYTES // 3, MOST_BYTES, MOST_BYTES + 1]).map(bytes), max_size=30)


@pytest.mark.slow
@given(TEXTS, st.integers(1, 12))
def test_the_parts_are_the_items_within_both_limits(items: list[bytes], most: int) -> None:
    parts = split_items(items, lambda item: item, most)
    assert [item for part in parts for item in part] == items
    for part in parts:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(map(len, part)) <= MOST_BYTES
    for part, following in pairwise(parts):
        assert len(part) == most or sum(map(len, part)) + len(following[0]) > MOST_BYTES, (
            "no part is smaller than it need be"
        )
