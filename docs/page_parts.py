"""Parts of the reference pages: words of docstrings as Markdown, and signatures that fit a page."""

from __future__ import annotations

import re
import textwrap

WIDEST = 100
"""Characters of a line of code, so that a page need not be scrolled."""
COLUMNS = re.compile(r"(?P<names>`[\w.]+`(?:, `[\w.]+`)*) {2,}(?P<told>.*)")


def markdown(text: str) -> str:
    """Code between single backquotes."""
    return text.replace("``", "`")


def paragraphs(text: str) -> str:
    """Lines that are set in columns become a list."""
    lines = re.sub(r"\n {6,}", " ", markdown(text)).splitlines()
    return "\n".join(COLUMNS.sub(r"- \g<names> — \g<told>", line) if COLUMNS.match(line) else line for line in lines)


def signature(line: str) -> str:
    """One that is too wide continues on lines of its own, as a formatter would write it, but as many arguments on each as fit."""
    begin, bracket, rest = line.partition("(")
    if len(line) <= WIDEST or not bracket:
        return line
    depth, parts, end = 0, [""], len(rest)
    for at, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            end = at
            break
        parts[-1] += letter
        if letter == "," and depth == 0:
            parts.append("")
    glued = " ".join(part.strip().replace(" ", "\0") for part in parts)
    filled = textwrap.wrap(glued, WIDEST - 4, break_long_words=False, break_on_hyphens=False)
    inner = "".join(f"    {one.replace(chr(0), ' ')}\n" for one in filled)
    return f"{begin}(\n{inner}{rest[end:]}"
