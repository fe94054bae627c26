"""The list of the dashboard's texts, for readers, and what a reader found in them."""

from __future__ import annotations

from tools.texts import draw, texts


def test_every_text_is_listed_once_and_drawn_by_a_commit() -> None:
    listed = texts()
    words = [text for _, text in listed]
    assert len(words) == len(set(words)) > 300
    for text in (
        "Are you sure?",
        "Page not found",
        "connection lost",
        "No job is selected.",
        "text in the error",
        "On time.",
    ):
        assert text in words, text
    files = {file for file, _ in listed}
    assert {"serving/conditions.py", "serving/forecast.py", "dashboard/templates/topic.html"} <= files
    assert any("[matches|match]" in text for text in words), "a choice is shown"
    drawn = draw(listed, 30, "a" * 40)
    assert drawn == draw(listed[::-1], 30, "a" * 40) != draw(listed, 30, "b" * 40)
    assert len({*drawn}) == 30


def test_what_a_reader_had_to_read_twice_is_gone() -> None:
    all_of_them = "\n".join(text for _, text in texts())
    for text in (
        "by hand",
        "one for the last",
        "No worker is known",
        "you may look",
        "Another site sent this",
        "made for you",
        "gone by now",
        "by themselves",
        "learns of this",
        "lets none go now",
        "holds a job back",
    ):
        assert text not in all_of_them, text
