"""The documentation as data: its pages, and the fenced blocks on them.

<!-- not run: needs a new machine -->      the only way out, with its reason
```console
$ pip install 'tarry[embedded]'
```

A block whose first line is a comment with the name of a file is that file, without this line:

```python
# shop.py
import tarry
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RUNNERS = {"python", "console", "sh", "java"}
"""The languages whose blocks run."""
ONE_EXTRA = "standard"
OF_ONE_EXTRA = [
    ROOT / "docs" / "how-to" / page
    for page in (
        "offer-to-a-redisson-queue.md",
        "serve-youzans-delay-queue.md",
        "poll-a-sorted-set-under-a-lock.md",
        "evict-a-redisson-map.md",
        "serve-a-redisson-controller.md",
    )
]
"""Of the systems that tarry comes from: each needs no more than `pip install` with this extra."""

MADE = re.compile(
    r"<!-- (?:(?:bench|chaos|pending|profile|scale): \w+|made by [\w/.]+: begin) -->.*?<!-- (?:\w+: )?end -->", re.S
)
"""Tables that are written from readings."""
_FILE = re.compile(r"(?:#|//) (?P<name>[\w./@-]+\.\w+|Dockerfile)(?P<at_end>, at its end)?\n")
_ESCAPE = re.compile(r"<!-- not run:(?P<reason>.*)-->")
_FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+)(?P<language>\S*)")


@dataclass(frozen=True)
class Block:
    """One fenced block, and where it stands."""

    page: Path
    line: int  # of its first line of text, from 1
    language: str
    text: str
    not_run: str | None  # the reason why not

    @property
    def file(self) -> str | None:
        """The file that the block is."""
        return found["name"] if (found := _FILE.match(self.text)) else None

    @property
    def content(self) -> str:
        """Of that file."""
        return self.text.partition("\n")[2]

    @property
    def script(self) -> str:
        """The block as a script; a file is written."""
        if self.file is None:
            return self.text
        return f"cat {self._redirection} {self.file} <<'END_OF_FILE'\n{self.content}END_OF_FILE\n"

    @property
    def _redirection(self) -> str:
        found = _FILE.match(self.text)
        return ">>" if found and found["at_end"] else ">"

    @property
    def place(self) -> str:
        return f"{name(self.page)}:{self.line}"


def name(page: Path) -> str:
    """What the page is called in the names of tests."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Every fenced block of the page, from top to bottom."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    reason: str | None = None
    while at < len(lines):
        line = lines[at]
        at += 1
        if escape := _ESCAPE.fullmatch(line.strip()):
            reason = escape["reason"].strip()
        elif fence := _FENCE.fullmatch(line):
            first = at
            while lines[at].strip() != fence["fence"]:
                at += 1
            text = "".join(f"{inner.removeprefix(fence['indent'])}\n" for inner in lines[first:at])
            found.append(Block(page, first + 1, fence["language"], text, reason))
            at += 1
            reason = None
        elif line.strip():
            reason = None
    return found
