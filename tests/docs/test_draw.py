"""docs/draw.py lets a commit choose what is read."""

from __future__ import annotations

import draw
import prose


def test_a_commit_draws_thirty_and_another_one_draws_others() -> None:
    names = [str(number) for number in range(100)]
    first = draw.draw(names, "a")
    assert first == draw.draw(reversed(names), "a") != draw.draw(names, "b")
    assert len(set(first)) == draw.DRAWN


def test_what_is_drawn_is_written_by_hand_for_users() -> None:
    pages, told = draw.pages(), draw.docstrings()
    assert "README.md" in pages
    assert "docs/reference/topics.md" not in pages
    assert not any("/decisions/" in page for page in pages)
    assert all((prose.ROOT / page).exists() for page in pages)
    assert {"AsyncTopic.add", "JobInfo.failure", "StaleReceipt.reason"} <= set(told)
    assert "Topic.add" not in told
    assert all(told.values())
