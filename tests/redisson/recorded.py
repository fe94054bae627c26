"""Recorded commands of real Redisson clients, row by row.

    codec_vectors.tsv        values as Kryo 5.6.2, River 2.0.11 and Jackson with Redisson's settings encode them
    codec_values.jsonl       values as the clients 3.16.8 and 3.52.0 encode them
    json_decode.jsonl        JSON as they decode it, or their error
    offers.jsonl             RDelayedQueue.offer: argument, packed element, keys, publish
    transfers.jsonl          the transfer script, with the commands inside of it
    map_cache_writes.jsonl   RMapCache: field and packed value
    map_cache_events.jsonl   RMapCache: messages on its channels, and what Java's listener was told
    locks.jsonl              RLock and its kin: arguments, what the keys were afterwards, what was published

Bytes are ``{"hex": …}``, or ``{"len", "sha256", "head_hex"}`` where they are longer than 2048. A test walks all rows of a codec, and names
each that differs (``check_each``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tarry.verbs.redisson.values import Bean, Byte, Char, Float, LinkedHashMap, Long, Short

T = TypeVar("T")
DATA = Path(__file__).parent / "data"
OURS = {"kryo": "kryo5", "marshalling": "river"}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def vectors() -> list[tuple[str, str, int, str]]:
    """Codec, value, length and hex of each row that has bytes."""
    lines = (DATA / "codec_vectors.tsv").read_bytes().decode().rstrip("\n").split("\n")
    return [
        (cells[0], cells[1], int(cells[2]), cells[3])
        for cells in (line.split("\t") for line in lines)
        if not cells[2].startswith("ERR")
    ]


def raw(cell: Any) -> bytes | None:
    """The bytes of a cell; ``None`` if only their digest was kept."""
    if isinstance(cell, str):
        return cell.encode()
    return bytes.fromhex(cell["hex"]) if "hex" in cell else None


def is_what(made: bytes, cell: Any) -> bool:
    """Whether these are the bytes of a cell."""
    if (known := raw(cell)) is not None:
        return made == known
    return len(made) == cell["len"] and hashlib.sha256(made).hexdigest() == cell["sha256"]


def codec_of(row: dict[str, Any]) -> str:
    return OURS.get(row["codec"], row["codec"])


def each_codec(found: Iterable[T], codec_of: Callable[[T], str] = codec_of) -> pytest.MarkDecorator:  # type: ignore[assignment]
    """A test for each codec, given its rows as ``recorded``."""
    by_codec: dict[str, list[T]] = {}
    for row in found:
        by_codec.setdefault(codec_of(row), []).append(row)
    return pytest.mark.parametrize("recorded", by_codec.values(), ids=by_codec)


def check_each(recorded: Iterable[T], name_of: Callable[[T], str], check: Callable[[T], None]) -> None:
    """Checks every row, and fails with the name of each that differs, and how."""
    failed: list[str] = []
    for row in recorded:
        try:
            check(row)
        except Exception as fault:  # noqa: BLE001  # the other rows are checked, too
            failed.append(f"{name_of(row)}: {type(fault).__name__}: {fault}")
    assert not failed, "\n\n".join(failed)


NOT_OURS = object()
"""A Java value that has no Python."""

_COLLECTIONS = {
    "ArrayList:[a, b]": ["a", "b"],
    "ArrayList:[1, 2, c]": [1, Long(2), "c"],
    "HashMap:{a=1}": {"a": 1},
    "LinkedHashMap:{k=v, n=1, l=2}": LinkedHashMap(k="v", n=1, l=Long(2)),
    "HashSet:[s]": {"s"},
}
_BEAN = Bean("Vec$Job", {"id": "a1", "n": 7, "t": 5, "tags": ["x", "y"]})


def python(value: str) -> Any:
    """The Python of a value in codec_vectors.tsv."""
    if value in _COLLECTIONS:
        return _COLLECTIONS[value]
    if value.startswith("Job:"):
        return _BEAN
    kind, _, text = value.partition(":")
    if kind == "String":
        length = re.fullmatch(r"len(\d+)", text)
        return "x" * int(length[1]) if length else text
    made = {
        "Integer": int,
        "Long": lambda text: Long(int(text)),
        "Boolean": lambda text: text == "true",
        "Double": float,
        "Float": lambda text: Float(float(text)),
        "Short": lambda text: Short(int(text)),
        "Byte": lambda text: Byte(int(text)),
        "Character": Char,
        "byte[]": bytes.fromhex,
    }
    return made[kind](text) if kind in made else NOT_OURS


def specified(spec: str) -> Any:
    """The Python of a value's specification in the other files."""
    kind, _, text = (json.loads(spec) if spec.startswith('"') else spec).partition(":")
    if kind == "rep":
        piece, _, times = text.rpartition("*")
        return piece * int(times)
    made = {
        "s": str,
        "i": int,
        "l": lambda text: Long(int(text)),
        "d": float,
        "bool": lambda text: text == "true",
        "bytes": bytes.fromhex,
        "map": lambda text: json.loads(text, object_pairs_hook=LinkedHashMap),
        "hashmap": json.loads,
        "list": json.loads,
    }
    return made[kind](text) if kind in made else NOT_OURS
