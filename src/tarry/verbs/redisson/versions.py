"""The version of a Java application's Redisson tells its codec, unless Java sets another one, and the format of its elements.

    up to 3.9           json     dLc0
    3.10 to 3.12        FST      dLc0      tarry does not speak FST: Java has to set another codec
    3.13 to 3.18        river    dLc0
    3.19 to 3.21.0      kryo5    dLc0
    3.21.1 and later    kryo5    Bc0Lc0

Rules
- Nothing is guessed. A version that is too short to tell, such as "3.21" or "3", is refused with the versions to choose from.
"""

from __future__ import annotations

from dataclasses import dataclass

from tarry.errors import BadInput
from tarry.verbs.redisson.elements import CHANGED, VERSION, Format

_ERAS: tuple[tuple[tuple[int, ...], str | None, Format], ...] = (
    ((0,), "json", Format.OLD),
    ((3, 10), None, Format.OLD),
    ((3, 13), "river", Format.OLD),
    ((3, 19), "kryo5", Format.OLD),
    (CHANGED, "kryo5", Format.NEW),
)
"""Each with its first version, from the oldest on. ``None`` is FST."""


@dataclass(frozen=True, slots=True)
class RedissonVersion:
    """A version of Redisson, and its defaults."""

    text: str
    codec: str | None
    """The name of its codec; ``None`` if tarry does not speak it."""
    format: Format


def redisson_version(value: str, what: str = "redisson") -> RedissonVersion:
    """The defaults of a version such as "3.15.1", or "3.15". Raises ``BadInput`` for any other text, and for a version between two
    defaults."""
    if not isinstance(value, str) or not VERSION.fullmatch(value):
        raise BadInput(f'{what}: {value!r}; it is the version of Redisson in the Java application, such as "3.15.1".')
    version = tuple(map(int, value.split(".")))
    for first, _, _ in _ERAS:
        if version < first and version == first[: len(version)]:
            raise BadInput(f"{what}: {value!r} may have either of two defaults. Give {_choice(version)}.")
    _, codec, format = [era for era in _ERAS if era[0] <= version][-1]
    return RedissonVersion(value, codec, format)


def _choice(version: tuple[int, ...]) -> str:
    """The versions of which one is to be given instead of a beginning of them."""
    if len(version) == 1:
        return 'the complete version, such as "3.15.1"'
    major, minor, patch = CHANGED
    before, after = (f'"{major}.{minor}.{number}"' for number in (patch - 1, patch))
    return f"{before} ({Format.OLD}) or {after} ({Format.NEW})"
