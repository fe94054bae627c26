"""What is promised about killed workers is said in the same words everywhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SENTENCE = re.compile(
    r"(go|goes) to another running worker within two seconds if the server sees its connection end, "
    r"otherwise after (their|its) time to run"
)
PLACES = (
    "CHANGELOG.md", "docs/explanation/compared.md", "docs/explanation/how-it-works.md", "docs/how-to/run-workers.md",
    "docs/production/upgrade.md", "docs/production/when-something-is-wrong.md", "docs/reliability.md",
    "src/tarry/worker/liveness.py", "src/tarry/worker/worker.py",
)  # fmt: skip


def text_of(path: Path) -> str:
    return " ".join(path.read_text("utf-8").split())


def test_every_place_promises_the_same_of_killed_workers() -> None:
    said = {place: len(SENTENCE.findall(text_of(ROOT / place))) for place in PLACES}
    assert all(said.values()), said


def test_no_page_promises_anything_else() -> None:
    pages = [
        page
        for page in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md")
        if "decisions" not in page.parts
    ]
    assert len(pages) > 30
    for page in pages:
        rest = SENTENCE.sub("", text_of(page))
        wrong = [
            part for part in rest.split(". ") if "within two seconds" in part and re.search(r"worker|killed", part)
        ]
        assert wrong == [] or all("of the start of one" in part for part in wrong), page
