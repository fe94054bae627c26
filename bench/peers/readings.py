"""What was measured: a value for each peer, line and round, and the reasons of what is missing. Kept in a file after each turn."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.results import Reading


@dataclass(frozen=True, slots=True)
class Found:
    """One line of one turn: its value, what belongs to it, and what is to be said of it, or why there is no value."""

    value: float | None
    details: dict[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass
class Readings:
    """``rounds[peer][row]`` has an entry a round: line → Found as data, or the reason why there is none."""

    about: dict[str, Any]
    rounds: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    def done(self, peer: str, row: str) -> int:
        return len(self.rounds.get(peer, {}).get(row, []))

    def put(self, peer: str, row: str, found: dict[str, Found] | str) -> None:
        entry: dict[str, Any]
        if isinstance(found, str):
            entry = {"reason": found}
        else:
            entry = {
                line: {"value": one.value, "details": one.details, "note": one.note} for line, one in found.items()
            }
        self.rounds.setdefault(peer, {}).setdefault(row, []).append(entry)

    def reading(self, peer: str, row: str, line: str) -> Reading | None:
        """The values of all rounds; none if no round has one."""
        values = [
            entry[line]["value"]
            for entry in self._entries(peer, row)
            if line in entry and entry[line]["value"] is not None
        ]
        return Reading(tuple(values)) if values else None

    def detail(self, peer: str, row: str, line: str, name: str) -> Reading | None:
        found = [entry[line]["details"] for entry in self._entries(peer, row) if line in entry]
        values = [details[name] for details in found if name in details]
        return Reading(tuple(values)) if values else None

    def note(self, peer: str, row: str, line: str) -> str:
        """What is to be said of a value, or why there is none."""
        entries = self._entries(peer, row)
        notes = [entry[line]["note"] for entry in entries if line in entry]
        if not notes:
            notes = [entry["reason"] for entry in entries if "reason" in entry]
        return next((note for note in notes if note), "")

    def has(self, row: str, line: str) -> bool:
        """Whether a line was measured at all: of some sizes, not all are."""
        return any(line in entry for rows in self.rounds.values() for entry in rows.get(row, []))

    def _entries(self, peer: str, row: str) -> list[dict[str, Any]]:
        return self.rounds.get(peer, {}).get(row, [])

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"about": self.about, "rounds": self.rounds}, indent=1, ensure_ascii=False)
        file.with_suffix(".new").write_text(text + "\n", "utf-8")
        file.with_suffix(".new").replace(file)

    @classmethod
    def load(cls, file: Path) -> Readings:
        data = json.loads(file.read_text("utf-8"))
        return cls(data["about"], data["rounds"])
