"""Scripts: one Lua file a verb, assembled and checked when tarry is imported.

    lua/topic/finish.lua
        local due, reserved, … = unpack(KEYS)          names of the keys: code and declaration at once
        local clock, is_replay = unpack(ARGV)           names of the arguments, the clock first
        -- each: id, receipt = unpack(ARGV, i, i + 1)  names of each item's arguments, in a script over many items
        -- include clock job watch receipt             shared parts, lua/lib/NAME.lua, inserted here in this order;
                                                       FOLDER/NAME is lua/FOLDER/lib/NAME.lua

A verb declares what it will pass (``Script("topic/finish", item=("id", "receipt"))``). It must agree with the file, or the
import fails: a script and its caller cannot drift apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from tarry.values.keys import KEY_PARTS, TOPIC_PARTS, KnownKeys, TopicKeys, keys_of_parts, topic_keys_of

_KEYS = re.compile(r"^local ([\w, ]+) = unpack\(KEYS\)$", re.M)
_ARGS = re.compile(r"^local ([\w, ]+) = unpack\(ARGV\)$", re.M)
_ITEM = re.compile(r"^-- each: ([\w, ]+) = unpack\(ARGV, i, i(?: \+ \d+)?\)$", re.M)
_INCLUDE = re.compile(r"^-- include ([\w/ ]+)$", re.M)
_CALL = re.compile(rb"redis\.call\(([^,]*)")
_LUA = Path(__file__).parent.parent / "lua"
_COMMAND = re.compile(rb"'([A-Z]+)'")


KNOWN: list[KnownKeys] = []
LEARNING: list[Callable[[], None]] = []
"""Called when a topic is learned: what remembers keys of its own."""


def learn_keys(key: bytes) -> TopicKeys:
    """Notes that the topic of this key has jobs with a key: from now on each script that learns of it gets their keys."""
    keys = topic_keys_of(key)
    if any(known.get(keys) != known.long(keys) for known in KNOWN):
        for known in KNOWN:
            known.learn(keys)
        for forget in LEARNING:
            forget()
    return keys


class Script:
    """A Lua script, ready to be called by its hash."""

    __slots__ = (
        "__dict__",
        "detects_replays",
        "keys_for",
        "known_keys",
        "limit_index",
        "name",
        "read_only",
        "sha",
        "source",
        "stride",
    )

    def __init__(
        self,
        name: str,
        *,
        args: tuple[str, ...] = (),
        item: tuple[str, ...] = (),
        keys: tuple[str, ...] = TOPIC_PARTS,
        read_only: bool = False,
        learns_keys: bool = False,
    ) -> None:
        """``args`` come after the clock, ``item`` after them, once for each item; ``keys`` are a topic's by default.
        ``read_only``: it never writes, so that a replica can answer it. ``learns_keys``: those of jobs with a key come behind ``keys`` only for
        a topic that has such jobs; without them it answers KEYED there, and has done nothing."""
        raw = _source_of(name)
        for kind, pattern, expected in (
            ("keys", _KEYS, (*keys, *KEY_PARTS) if learns_keys else keys),
            ("arguments", _ARGS, ("clock", *args)),
            ("items", _ITEM, item),
        ):
            declared = _declaration(pattern, raw)
            if declared != expected:
                raise AssertionError(f"lua/{name}.lua declares the {kind} {declared}, its verb passes {expected}")
        self.name = name
        #: what returns the keys that a topic's script gets
        self.known_keys = KnownKeys(keys) if learns_keys else None
        self.keys_for: Callable[[TopicKeys], tuple[bytes, ...]] = (
            self.known_keys.__getitem__ if self.known_keys is not None else keys_of_parts(keys)
        )
        if self.known_keys is not None:
            KNOWN.append(self.known_keys)
        self.source = _assembled(raw).encode()
        self.sha = sha1(self.source, usedforsecurity=False).hexdigest().encode()
        self.stride = len(item)
        self.read_only = read_only
        self.detects_replays = args[-1:] == ("is_replay",)
        #: the index of the argument that limits how many records it goes through
        self.limit_index = args.index("limit") if "limit" in args else None

    def __repr__(self) -> str:
        return f"Script({self.name!r})"

    @cached_property
    def commands(self) -> frozenset[bytes]:
        """The commands that it needs. Those in a ``pcall`` are not among them: the script continues if they fail."""
        calls = _CALL.findall(self.source)
        return frozenset(name for call in calls for name in _COMMAND.findall(call))


def _declaration(pattern: re.Pattern[str], raw: str) -> tuple[str, ...]:
    match = pattern.search(raw)
    return tuple(match[1].split(", ")) if match else ()


@lru_cache
def _source_of(name: str) -> str:
    assert __spec__ is not None, "it was imported"
    loader: Any = __spec__.loader  # it reads from an archive too; importlib.resources would import twenty modules
    source: bytes = loader.get_data(str(_LUA / f"{name}.lua"))
    return source.decode()


def _assembled(text: str) -> str:
    """With the shared parts, and theirs, in place of the lines that name them."""
    return _INCLUDE.sub(lambda match: "\n".join(map(_include, match[1].split())), text)


def _include(name: str) -> str:
    folder, _, part = name.rpartition("/")
    return _assembled(_source_of(f"{folder}/lib/{part}" if folder else f"lib/{part}"))
