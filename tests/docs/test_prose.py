"""docs/prose.py finds the words of docs/words.toml in sentences, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import prose
from walked import cases

WORDS, _ = prose.word_list()


def found(text: str) -> list[str]:
    return [hit for _, hit, _ in prose.found(text, WORDS)]


@cases(
    ("text", "hit"),
    [
        ("Who dies loses only time.", "Who"),
        ("It waits. What is due is handed out.", "What"),
        ("- **Whoever comes late** is refused.", "Whoever"),
        ("The time to run begins anew.", "anew"),
        ("A worker that dies loses his jobs.", "his"),
        ("A full server refuses jobs\nin words.", "in words"),
        ("At most so many a minute.", "so many a minute"),
        ("It holds at most so many jobs.", "at most so many"),
        ("Dead jobs stay for ever.", "for ever"),
        ("Dead jobs stay for\n    ever.", "for\n    ever"),
        ("A lock is looked at, not had by a client, and was had.", "was had"),
        ("No connection is to be had.", "be had"),
        ("Then who waits is told.", "who waits"),
        ("It is released by who sent it.", "by who"),
        ("Bodies are read. So are headers.", "So are"),
        ("It keeps its place: otherwise another job would pass it.", "place: otherwise"),
        ("A relay never reads it: it needs no task.", "it: it needs"),
        ("A page.\n\nIt shows jobs.", "It"),
        ("It shows jobs.", "It"),
        ("A page.\n\n    They show jobs.", "They"),
        ("The function below handles jobs.", "function below"),
        ("Look for a typing error.", "typing error"),
        ("It is finished all the\nsame, and counted.", "all the\nsame"),
        ("That is one thing less to run.", "one thing less"),
        ("A callback whose error nobody need look at.", "nobody need"),
        ("Others do without.", "do without"),
    ],
)
def test_listed_phrases_are_found(text: str, hit: str) -> None:
    assert hit in found(text)


@cases(
    "text",
    [
        "Who may use it?",
        "The log says what happened.",
        "The consumer that dies loses time.",
        "This is a thesis.",
        "A job has a name. It is short.",
        "Somebody who waits is told.",
        "The order decides who waits for whom.",
        "One flag: it is set.",
        "A job and its topic have all the same name.",
        "forever",
        "For every job a line.",
        "Tell the server who you are.",
        "So is that done?",
        "nobody needs it",
        "So many that all fit.",
    ],
)
def test_plain_words_are_not_reported(text: str) -> None:
    assert found(text) == []


def test_code_and_headings_are_not_checked(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What it is\n\nSay `anew=True`.\n\n```sh\necho anew\n```\n\nThe page ends. Who knows.\n")
    assert [(line, hit) for line, hit, _ in prose.found(prose.page(page), WORDS)] == [(9, "Who")]


def test_docstrings_and_error_messages_are_checked(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '''def f(x):\n    """Begins anew."""\n    raise ValueError(f"{x} what is" f" refused in words.")\n'''
    )
    hits = [hit for _, text in prose.strings(module) for _, hit, _ in prose.found(text, WORDS)]
    assert hits == ["anew", "in words"]


def test_comments_and_help_texts_are_checked(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('option(help="Begins anew.")  # whoever comes late\nLIMIT = 3\n"""A worker loses his jobs."""\n')
    hits = [hit for _, text in prose.strings(module) for _, hit, _ in prose.found(text, WORDS)]
    assert sorted(hits) == ["anew", "his", "whoever"]
    script = tmp_path / "script.lua"
    script.write_text("local heard = 1\nreturn heard  -- heard by all\n")
    assert [hit for _, text in prose.script_comments(script) for _, hit, _ in prose.found(text, WORDS)] == ["heard"]


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "KEPT", tmp_path / "kept" / "prose.json")
    read: list[str] = []
    monkeypatch.setitem(prose.READ, ".py", lambda path: read.append(path.name) or prose.strings(path))
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text('"""A worker loses his jobs, as ``NO_SUCH_NAME`` says."""\n')
    other.write_text('"""Fine."""\nLIMIT = 3\n')

    def look() -> list[tuple[list[str], list[str], bool]]:
        found = prose.look_at([one, other], WORDS).values()
        return [
            ([hit for _, hit, _ in one.hits], [name for *_, name in one.names], "LIMIT" in one.words) for one in found
        ]

    expected = [(["his"], ["NO_SUCH_NAME"], False), ([], [], True)]
    assert look() == look() == expected
    assert read == ["one.py", "other.py"]
    other.write_text('"""This begins anew."""\n')
    prose.nodes.cache_clear()  # as in the next process
    assert look() == [expected[0], (["anew"], [], False)]
    assert read == ["one.py", "other.py", "other.py"]
