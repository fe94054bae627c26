"""The numbers on the pages are references, and each has a row of the benchmarks or a constant (docs/figures.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import figures
import generate
import prose
from doc_pages import MADE, PAGES, ROOT, name
from walked import cases, each

BY_HAND = re.compile(
    r"""× | µs
    | times \s (?:faster|slower|as \s (?:fast|slow))
    | \d (?:\s (?:thousand|million))? (?:\s (?:adds|calls|jobs|messages|offers|pairs|pops|puts|tasks))? (?:\s (?:a|per) \s second|\s? /s\b)
    | \bp(?:50|95|99)\b [^.|\n]{0,20} \d""",
    re.X,
)
"""What a measured number looks like. Records of decisions have those of their day."""


@each(PAGES, name)
def test_every_number_has_a_row_or_a_constant(page: Path) -> None:
    filled = figures.fill(page.read_text(encoding="utf-8"))
    assert "{{" not in filled


def test_every_number_that_is_named_is_on_a_page() -> None:
    used = {one for page in PAGES for one in figures.REFERENCE.findall(page.read_text(encoding="utf-8"))}
    assert figures.values().keys() == used


def test_a_number_without_a_row_fails() -> None:
    with pytest.raises(LookupError, match=r"docs/figures\.py"):
        figures.fill("It takes {{burst.of_none}}.")


def test_a_row_that_was_not_measured_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figures.MEASURED, "burst.renamed", figures.Measured("burst", "no such measure"))
    with pytest.raises(LookupError, match=r"benchmarks\.json has no row 'burst'"):
        figures.fill("It takes {{burst.renamed}}.")


def test_constants_are_written_as_people_write_them() -> None:
    text = figures.fill(
        "{{default.ttr}} {{default.keep_dead}} {{default.retry_longest}} {{default.max_body}} {{default.concurrency}}"
    )
    assert text == "60 s 30 days 1 h 1 MiB 100"


def test_readme_is_shown_as_it_is() -> None:
    """A forge and an index of packages fill in nothing."""
    assert figures.REFERENCE.findall((ROOT / "README.md").read_text(encoding="utf-8")) == []


@each([page for page in PAGES if page.parent.name != "decisions"], name)
def test_no_measured_number_is_written_by_hand(page: Path) -> None:
    """Write a reference to a row of the benchmarks, or no number; a formula stands in back quotes."""
    text = page.read_text(encoding="utf-8")
    if not text.startswith(generate.NOTE):
        assert by_hand(text) == []


BY_DEFAULT = re.compile(r"(?:by default|default is),? \d[^|.;]*|\d[\d,.]*(?: [a-z]+)?,? by default", re.I)
"""A default that is no reference."""


@each([page for page in PAGES if page.parent.name not in {"decisions", "migrate"}], name)
def test_defaults_are_references(page: Path) -> None:
    """Those of other systems are on the pages about them."""
    text = page.read_text(encoding="utf-8")
    if not text.startswith(generate.NOTE) and page.name not in {"CHANGELOG.md", "compared.md"}:
        assert BY_DEFAULT.findall(figures.REFERENCE.sub("", prose.without_code(text))) == []


IN_WORDS = re.compile(
    r"""\b (?:at\smost|up\sto|no\s(?:more|longer|larger|later)\sthan|limited\sto|a\slimit\sof) \s (?:(?:the\slast|about|some)\s)?
    (?:\d[\d,.]* | two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|fifty | (?:a\s)?(?:hundred|thousand|million)) \b
    (?:\s[\w%]+){,2}""",
    re.I | re.X,
)
"""A limit that is no reference. One of anything is not a number that changes."""
OF_OTHERS = {
    "evict-a-redisson-map.md": {"at most 100 expired entries"},  # Redisson's
    "first-job.md": {"at most five seconds"},  # the wait of the example
    "poll-a-sorted-set-under-a-lock.md": {"up to three seconds"},  # the wait of the example
    "share-a-map-with-java.md": {"up to 3.22 does not", "up to 30 minutes"},  # Redisson's
    "share-a-queue-with-java.md": {"up to 3.9"},  # a version of Redisson
    "back-up-and-restore.md": {"up to two seconds"},  # the server's
    "use-with-celery.md": {"up to 28 delay queues"},  # RabbitMQ's
    "what-runs-in-a-worker.md": {
        "At most two workers of"
    },  # the watch of workers has two seats; a script has no name for it
}
"""Limits that no constant of tarry has."""
OURS = [page for page in PAGES if page.parent.name in {"how-to", "tutorial", "explanation", "production", "reference"}]


@cases("page", [page for page in OURS if page.name != "compared.md"], ids=name)
def test_limits_are_references(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if not text.startswith(generate.NOTE):
        assert set(limits_in_words(text)) == OF_OTHERS.get(page.name, set())


def limits_in_words(text: str) -> list[str]:
    return [" ".join(hit.split()) for hit in IN_WORDS.findall(figures.REFERENCE.sub("", prose.without_code(text)))]


@pytest.mark.parametrize(
    "text",
    [
        "A topic has at most 200 keys.",
        "It takes up to\nten minutes.",
        "No more than a thousand jobs.",
        "A limit of 64 KiB.",
    ],
)
def test_a_limit_in_words_is_found(text: str) -> None:
    assert limits_in_words(text) != []


def test_references_one_of_anything_and_code_are_no_limits_in_words() -> None:
    assert limits_in_words("At most {{limit.batch}} jobs, at most one job, up to `limit` jobs, `at most 20`.") == []


def by_hand(text: str) -> list[str]:
    return BY_HAND.findall(figures.REFERENCE.sub("", prose.without_code(MADE.sub("", text))))


@cases(
    "text",
    [
        "0.96 × as many.",
        "It is 3 times faster.",
        "1.03 times as fast as that.",
        "It moves 90,311 a second.",
        "It makes 1.8 calls a second.",
        "That is 57,000 jobs/s.",
        "A pop takes 56 µs.",
        "With a p99 of 2.57 ms.",
        "p50 | p99 4 ms",
    ],
)
def test_a_measured_number_by_hand_is_found(text: str) -> None:
    assert by_hand(text) != []


def test_references_formulas_and_made_tables_are_no_numbers_by_hand() -> None:
    made = "<!-- bench: table -->\n| 73 µs |\n<!-- bench: end -->"
    assert by_hand(f"{{{{burst.jobs_per_s}}}} jobs a second, `rate × t`.\n\n{made}\n") == []


def test_a_number_of_a_script_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert figures.fill("{{limit.watch}} {{limit.watch_seat}}") == "10 s 1 s"
    monkeypatch.setitem(figures.CONSTANTS, "limit.none", figures.Constant("lua/lib/watch", "RENAMED", "us"))
    with pytest.raises(LookupError, match=r"lua/lib/watch\.lua has no number with the name RENAMED"):
        figures.fill("{{limit.none}}")
