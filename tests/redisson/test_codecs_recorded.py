"""The codecs write what Java wrote and read what Java read, row by row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redisson.recorded import (
    NOT_OURS,
    check_each,
    codec_of,
    each_codec,
    is_what,
    python,
    raw,
    rows,
    specified,
    vectors,
)
from tarry.errors import BodyError
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.entries import unpack_entry, unpack_event
from tarry.verbs.redisson.values import Bean, Byte, Char, Float, Opaque, Short, java_type

VECTORS = vectors()


def bare(codec: str, value: Any) -> Any:
    """What comes back: text from "string", and from JSON a value that is not inside of another without its type."""
    if codec == "string":
        return text_of(value)
    if codec == "long":
        return int(value)
    if codec == "json" and isinstance(value, (Short, Byte)):
        return int(value)
    if codec == "json" and isinstance(value, Float):
        return float(value)
    if codec == "json" and isinstance(value, Char):
        return str(value)
    if codec == "json" and isinstance(value, bytes):
        return json.loads(codec_for("json").encode(value))
    return without_nulls(value) if codec == "json" else value


def text_of(value: Any) -> str:
    return (
        json.dumps(value) if isinstance(value, (bool, float)) else str(int(value) if isinstance(value, int) else value)
    )


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, Bean):
        return type(value)((key, without_nulls(item)) for key, item in value.items() if item is not None)
    return value


def expressible(codec: str, value: Any) -> bool:
    """Whether the codec writes such values."""
    if value is NOT_OURS or (codec == "river" and isinstance(value, (dict, set))):
        return False
    if isinstance(value, Bean):
        return codec == "json"
    return codec != "string" or isinstance(value, (str, int, float))


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same Java types all the way down."""
    if java_type(one) != java_type(other) or one != other:
        return False
    if isinstance(one, dict):
        return all(same(*pair) for pair in zip(one.items(), other.items(), strict=True))
    return not isinstance(one, (list, tuple)) or all(map(same, one, other))


def name_of(row: dict) -> str:
    return f"{row['version']} {row['codec']} {row.get('value', row.get('spec', ''))[:40]}"


@each_codec(VECTORS, lambda vector: vector[0])
def test_a_recorded_vector_round_trips(recorded: list[tuple[str, str, int, str]]) -> None:
    check_each(recorded, lambda vector: f"{vector[0]} {vector[1][:40]}", check_vector)


def check_vector(vector: tuple[str, str, int, str]) -> None:
    codec, text, length, digits = vector
    value = python(text)
    coder = codec_for(codec)
    if not expressible(codec, value):
        assert not digits.endswith("...") or codec == "river"
        return
    made = coder.encode(value)
    assert len(made) == length
    assert made.hex().startswith(digits.removesuffix("..."))
    assert same(coder.decode(made), bare(codec, value))


OPAQUE = {
    "kryo5": {"Job", "BigDecimal", "BigInteger", "Date", "UUID"},
    "river": {"HashMap", "Job", "HashSet", "Date", "UUID"},
    "json": {"BigDecimal", "BigInteger", "Date"},
}


@pytest.mark.parametrize("codec", OPAQUE)
def test_opaque_values_are_encoded_unchanged(codec: str) -> None:
    opaque = set()
    for name, text, _, digits in VECTORS:
        if name == codec and not digits.endswith("..."):
            foreign = bytes.fromhex(digits)
            value = codec_for(codec).decode(foreign)
            assert codec_for(codec).encode(value) == foreign or text.startswith(
                ("Float", "Short", "Byte", "Char", "byte")
            )
            opaque |= {text.partition(":")[0]} if isinstance(value, Opaque) else set()
    assert opaque == OPAQUE[codec]


@each_codec(rows("codec_values"))
def test_a_recorded_client_value_round_trips(recorded: list[dict]) -> None:
    check_each(recorded, name_of, check_client_value)


def check_client_value(row: dict) -> None:
    codec, value = codec_of(row), specified(row["spec"])
    coder = codec_for(codec)
    foreign = raw(row["encoded"])
    if foreign is not None:
        assert coder.encode(coder.decode(foreign)) == foreign
    if expressible(codec, value):
        made = coder.encode(value)
        assert is_what(made, row["encoded"])
        assert same(coder.decode(made), bare(codec, value))
    elif codec != "string":
        assert isinstance(coder.decode(foreign), Opaque)


@each_codec(rows("offers"))
def test_an_offered_value_is_encoded_as_java_encoded_it(recorded: list[dict]) -> None:
    check_each(recorded, name_of, check_offered_value)


def check_offered_value(row: dict) -> None:
    codec, value = codec_of(row), specified(row["spec"])
    if expressible(codec, value):
        assert is_what(codec_for(codec).encode(value), row["value_argv"])


def test_json_is_read_as_java_reads_it() -> None:
    check_each(rows("json_decode"), lambda row: f"{row['version']} {row['text']}", check_json)


def check_json(row: dict) -> None:
    foreign = row["text"].encode()
    coder = codec_for("json")
    if row["error"] is None:
        value, java = coder.decode(foreign), row["decoded"]
        if java is None:
            assert value is None
        elif java["type"] == "java.util.Date":
            assert value == Opaque(foreign)
        else:
            assert value == java["value"]
    elif "JsonParse" in row["error"] or "end-of-input" in row["error"]:
        with pytest.raises(BodyError, match="not JSON"):
            coder.decode(foreign)
    elif "com.example.Job" in row["text"]:  # Java had no such class; we need none
        assert coder.decode(foreign) == Bean("com.example.Job", {"a": 1})
    else:
        assert coder.decode(foreign) == Opaque(foreign)


def test_every_key_and_value_in_a_map_cache_is_read() -> None:
    for row in rows("map_cache_writes"):
        coder = codec_for(codec_of(row))
        for foreign in (raw(row["field"]), unpack_entry(raw(row["value"])).value):
            assert coder.encode(coder.decode(foreign)) == foreign
            assert not isinstance(coder.decode(foreign), Opaque)


def test_every_event_decodes_as_in_java() -> None:
    for row in rows("map_cache_events"):
        coder = codec_for(codec_of(row))
        event = unpack_event(raw(row["payload"]), updated="_updated:" in row["channel"])
        key, value = coder.decode(event.key), coder.decode(event.value)
        old = None if event.old is None else coder.decode(event.old)
        assert any(
            told["key"]["value"] == key
            and {value, old} == {cell and cell["value"] for cell in (told["value"], told["old"])}
            for told in row["java_event"]
        )


def test_the_recordings_are_complete() -> None:
    assert [sum(row[0] == codec for row in VECTORS) for codec in ("kryo5", "river", "json")] == [59, 57, 59]
    assert (len(rows("codec_values")), len(rows("json_decode"))) == (114, 40)
