"""Where a page has code, and where a Python file has text."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator

FENCE = re.compile(r"( *)(```+)(\S*)")


def blocks_of(page: str) -> tuple[list[str], list[int]]:
    """The lines of a page, empty but for its Python; how far each is indented."""
    lines, indents = list[str](), list[int]()
    fence = ""
    shift, is_python = 0, False
    for line in page.split("\n"):
        match = FENCE.match(line)
        is_border = bool(fence and line.strip() == fence) or bool(not fence and match)
        if is_border:
            fence, shift, is_python = (
                ("", 0, False) if fence or not match else (match[2], len(match[1]), match[3] == "python")
            )
        lines.append(line[shift:] if is_python and not is_border and not line[:shift].strip() else "")
        indents.append(shift if not is_border else 0)
    return lines, indents


def code_of(page: str) -> Iterator[tuple[int, int]]:
    """Where a page has code: its blocks, and what is between backticks."""
    for found in re.finditer(r"^ *(```+)\S*\n.*?^ *\1 *$|`[^`\n]+`", page, flags=re.M | re.S):
        yield found.span()


def with_class(path: str, text: str, whole: re.Pattern[str], new: str, *, is_unique: bool, packages: str) -> str:
    """The text in which a class has its new name. In Python, code is left alone: the server has renamed it."""

    def inside(spans: Iterator[tuple[int, int]], of: Callable[[str], str]) -> str:
        changed, at = "", 0
        for start, end in spans:
            changed += text[at:start] + of(text[start:end])
            at = end
        return changed + text[at:]

    def replaced(part: str) -> str:
        return whole.sub(new, part)

    def in_backticks(part: str) -> str:
        name = re.compile(
            rf"(?<=[\"'])((?:{packages})\.(?:\w+\.)*)({whole.pattern})(?=(?:\.\w+)*[\"'])"
        )  # "tarry.Minute"
        part = name.sub(rf"\g<1>{new}", part)
        return re.sub(r"`[^`\n]+`", lambda found: replaced(found[0]), part)

    if path.endswith(".py"):
        return inside(_texts_of(text), replaced if is_unique else in_backticks)
    if is_unique:
        return replaced(text)
    return inside(code_of(text), replaced) if path.endswith(".md") else text


def _texts_of(source: str) -> Iterator[tuple[int, int]]:
    """Where strings and comments are."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            yield starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
