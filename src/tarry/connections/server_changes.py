"""Whether a server changes while a process uses it: its eviction policy, its persistence, its role. A process that starts is refused or
warned (fitness.py); one that runs looks again every 30 s, and says what has changed, once, and when it is as it was.

    INFO, every 30 s  ──▶  ServerChanges.note  ──▶  the log: ✗ …, ✓ …; ``problems``, as long as they last
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

logger = logging.getLogger("tarry")
LOOK_EVERY_S = 30.0
SAFE = {"maxmemory_policy": "noeviction", "aof_enabled": "1", "role": "master"}
"""The values that keep all jobs. A process starts with less persistence, too, and is warned then, or with a policy for some keys."""


@dataclass(slots=True)
class ServerChanges:
    """The servers of one process, by address. Not thread-safe."""

    _first: dict[str, dict[str, str]] = field(default_factory=dict)
    _problems: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """The changes for the worse that still hold, each once."""
        return tuple(dict.fromkeys(text for known in self._problems.values() for text in known.values()))

    def note(self, shown: str, info: Mapping[str, str]) -> None:
        """Compares a server's INFO with the first one, and logs what is new. Without a field nothing is known of it."""
        first = self._first.setdefault(shown, {})
        known = self._problems.setdefault(shown, {})
        for name, safe in SAFE.items():
            if (value := info.get(name)) is None:
                continue
            was = first.setdefault(name, value if _is_allowed(name, value) else safe)
            if value in (was, safe):
                if known.pop(name, None) is not None:
                    logger.warning("✓ The server at %s: its %s is %s again.", shown, name, value)
                if value == safe:
                    first[name] = safe
            elif known.get(name) != (text := _problem(name, value, was)):
                known[name] = text
                logger.warning("✗ The server at %s: %s.", shown, text, extra={"tarry": {"server": shown, name: value}})


def _is_allowed(name: str, value: str) -> bool:
    """Whether a process may have started with it; anything else has come since, before the first look."""
    return name == "aof_enabled" or value.startswith("volatile")


def _problem(name: str, value: str, was: str) -> str:
    if name == "maxmemory_policy":
        return f"its maxmemory-policy was changed from {was} to {value}, which may drop jobs; set it to noeviction"
    if name == "aof_enabled":
        return "its append-only file was switched off, so a crash loses jobs; set appendonly yes"
    return "it has become a replica, and takes no jobs; make it a master again, or use the URL of its master"
