"""Names of topics and namespaces, and job ids: which are allowed, and how default ids are made.

A name has 1–200 bytes of UTF-8 (``测试`` is one) without control characters, ``{``, ``}`` or blanks
at the ends, for it is part of the hash tag of its keys: ``tarry:{NAMESPACE/TOPIC}:due``.

``.`` and ``..`` are no names: in a URL they mean a folder, and browsers resolve them, percent-encoded or not, before they send
anything; ``…/topics/orders/schedules/../pause`` would pause the topic.

A default id has 19 characters: 7 that sort by the millisecond it was made (until 2109), then 72 random bits.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import StrEnum

from tarry.errors import BadInput

LONGEST = 200
DOTS = (".", "..")
INTERNAL_PREFIXES = ("tarry:", "redisson_")
"""Keys with these prefixes belong to topics, to the internals of shared objects, or to tarry itself."""
INTERNAL_SUFFIX = ":redisson_options"
"""Keys with this suffix belong to the internals of shared maps."""
_NO_BRACES = str.maketrans("", "", "{}")
_NAME = re.compile(r"(?!\s|\.{1,2}\Z)[^\x00-\x1f\x7f-\x9f{}\u2028\u2029]+(?<!\s)")
_SORTED64 = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_SORTED64_BYTES = [char.encode() for char in _SORTED64]
_RANDOM_BYTES = 9
_RANDOM_POOL = 256
forks = 0
"""How often this process and its ancestors forked: a new number means other random bytes, and new connections. It is asked for in each
add, and ``getpid()`` would be a system call."""


def _count_fork() -> None:
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def check_name(value: str, what: str) -> bytes:
    """The name in UTF-8. Raises ``BadInput``, which says what is wrong with it; ``what`` is the argument's name."""
    if isinstance(value, str):
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{what}: {value!r} is not valid Unicode (a lone surrogate).") from None
        if _NAME.fullmatch(value) and len(raw) <= LONGEST:
            return raw
    raise BadInput(f"{what}: {_explain(value, what)}")


class OwnTopic(StrEnum):
    """Topics in which parts of tarry keep what is theirs. Each begins with a blank, so no name that is checked is one of them,
    and nobody reaches them by a name, at any door."""

    SQS_QUEUES = " sqs.queues"


def check_shared_name(value: str, what: str) -> str:
    """A key of the server that is shared with Java. Raises ``BadInput`` for one inside tarry or Redisson, wherever its hash tag is."""
    plain = value.translate(_NO_BRACES)
    if plain.startswith(INTERNAL_PREFIXES) or plain.endswith(INTERNAL_SUFFIX):
        raise BadInput(
            f"{what}: a name that begins with {' or '.join(INTERNAL_PREFIXES)}, or ends with {INTERNAL_SUFFIX}, belongs to something else, "
            "with braces or without."
        )
    return value


def check_namespace(value: str, what: str = "namespace") -> bytes:
    """The namespace in UTF-8: a name without ``/``, which separates it from the topic in the keys."""
    raw = check_name(value, what)
    if b"/" in raw:
        raise BadInput(f"{what}: {value!r} contains a '/', which separates the namespace from the topic in the keys.")
    return raw


def find_namespace(given: str | None, environment: Mapping[str, str]) -> str:
    """The given namespace, else that of ``TARRY_NAMESPACE``, else ``default``. Raises ``BadInput``."""
    found = environment.get("TARRY_NAMESPACE") or "default" if given is None else given
    check_namespace(found, "TARRY_NAMESPACE" if given is None else "namespace")
    return found


def _explain(value: object, what: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value!r} is a number, not text; write str({what})."
    if not isinstance(value, str):
        return f"{type(value).__name__} is not text; {'an' if what == 'id' else 'a'} {what} is a str."
    if not value:
        return "it is empty; give 1 to 200 bytes of text."
    if value in DOTS:
        return f"{value!r} means a folder in a URL; choose another name."
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > LONGEST:
        return f"it has {size} bytes of UTF-8; at most {LONGEST} are allowed."
    if value != value.strip():
        return f"{value!r} begins or ends with a blank; strip it."
    return f"{value!r} contains a control character or one of '{{' '}}', which delimit hash tags."


class IdGenerator:
    """Makes default ids from a clock (nanoseconds) and a source of random bytes, both given by the client.

    Random bytes are drawn for many ids at once; a forked process draws its own.
    """

    def __init__(self, now_ns: Callable[[], int], random: Callable[[int], bytes]) -> None:
        self._now_ns = now_ns
        self._random = random
        self._random_pool: list[bytes] = []
        self._forks = 0
        self._high_part: tuple[int, bytes] = (-1, b"")

    def new(self) -> bytes:
        """One id."""
        if forks != self._forks:
            self._forks, self._random_pool = forks, []
        try:
            text = self._random_pool.pop()
        except IndexError:
            self._random_pool = self._new_texts(_RANDOM_POOL)
            text = self._new_texts(1)[0]
        return self._now() + text

    def new_many(self, n: int) -> list[bytes]:
        """``n`` ids."""
        stamp = self._now()
        return [stamp + text for text in self._new_texts(n)]

    def nonce(self) -> bytes:
        """Six random bytes, by which the server recognizes a repeated ``add``: they are compared with those of one id only."""
        return self._random(6)

    def _new_texts(self, n: int) -> list[bytes]:
        text = b64encode(self._random(_RANDOM_BYTES * n), b"-_")
        return [text[i : i + 12] for i in range(0, 12 * n, 12)]

    def _now(self) -> bytes:
        ms = self._now_ns() // 1_000_000
        high = ms >> 6
        if self._high_part[0] != high:
            self._high_part = (high, "".join([_SORTED64[high >> shift & 63] for shift in range(30, -1, -6)]).encode())
        return self._high_part[1] + _SORTED64_BYTES[ms & 63]


def random_word(random: Callable[[int], bytes]) -> bytes:
    """A short random word, for the name of a client. It never begins with a hyphen, so that it can be a command-line argument."""
    return b64encode(random(_RANDOM_BYTES), b"._")
