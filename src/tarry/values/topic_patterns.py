r"""Patterns of topics: ``notify-*`` is every topic whose name begins with ``notify-``.

    *     any characters, none too
    \*    the character ``*``, which a topic's name may have

Two patterns overlap if some name matches both. That is known without a topic, so it is refused before there is one.
"""

from __future__ import annotations

import re
from functools import lru_cache

_STAR = re.compile(r"(?<!\\)\*")


def is_pattern(text: str) -> bool:
    """Whether it has a ``*`` that stands for any characters."""
    return isinstance(text, str) and _STAR.search(text) is not None


def literal(text: str) -> str:
    """The topic that a text without such a ``*`` names."""
    return text.replace("\\*", "*") if isinstance(text, str) else text


def escaped(topic: str) -> str:
    """The text for one topic."""
    return topic.replace("*", "\\*")


def matches(pattern: str, topic: str) -> bool:
    """Whether the topic's name matches, from its first to its last character."""
    return _expression(pattern).fullmatch(topic) is not None


@lru_cache(4096)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(literal(part)) for part in _STAR.split(pattern)), re.DOTALL)


def overlap(one: str, other: str) -> bool:
    """Whether a name can match both; either may be a pattern or the escaped name of a topic."""
    first, second = _symbols(one), _symbols(other)
    # met[j]: the beginning of `first` so far and the first j symbols of `second` can match the same text
    met = [True]
    met += [all(symbol is None for symbol in second[: at + 1]) for at in range(len(second))]
    for mine in first:
        before, met = met, [met[0] and mine is None]
        for at, its in enumerate(second):
            if mine is None or its is None:  # a star takes the other's symbol, or nothing
                met.append(before[at + 1] or met[at])
            else:
                met.append(before[at] and mine == its)
    return met[-1]


def _symbols(text: str) -> list[str | None]:
    """Its characters; ``None`` stands for any of them."""
    parts = [list(literal(part)) for part in _STAR.split(text)]
    found: list[str | None] = [*parts[0]]
    for part in parts[1:]:
        found += [None, *part]
    return found
