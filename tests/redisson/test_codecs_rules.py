"""Values that the codecs take, refuse, and pass through."""

from __future__ import annotations

import pickle
from enum import IntEnum
from typing import Any

import pytest

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.codecs import CODECS, codec_for
from tarry.verbs.redisson.codecs.reader import DEPTH
from tarry.verbs.redisson.values import (
    Bean,
    Byte,
    Char,
    Float,
    LinkedHashMap,
    Long,
    Opaque,
    Short,
    java_type,
    plain,
)
from walked import cases

REFERENCE = {
    "json": b'{"@class":"org.redisson.RedissonReference","type":"org.redisson.RedissonMap","keyName":"m","codec":null}',
    "kryo5": b"\x01\x00org.redisson.RedissonReferenc\xe5\x01\x81",
    "river": b"\x04\x04\x09\x3e\x1eorg.redisson.RedissonReference" + bytes(12),
}


@cases(
    ("value", "java"),
    [
        (None, "null"),
        (True, "Boolean"),
        (2**31 - 1, "Integer"),
        (-(2**31), "Integer"),
        (2**31, "Long"),
        (-(2**63), "Long"),
        (Long(7), "Long"),
        (Short(7), "Short"),
        (Byte(-128), "Byte"),
        (IntEnum("E", "A").A, "Integer"),
        (1.5, "Double"),
        (Float(1.5), "Float"),
        ("x", "String"),
        (Char("x"), "Character"),
        (b"x", "byte[]"),
        (bytearray(b"x"), "byte[]"),
        ([], "ArrayList"),
        ((), "ArrayList"),
        ({}, "HashMap"),
        (LinkedHashMap(), "LinkedHashMap"),
        (set(), "HashSet"),
        (frozenset(), "HashSet"),
    ],
    ids=repr,
)
def test_each_python_type_becomes_one_java_type(value: Any, java: str) -> None:
    assert java_type(value) == java


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1j, object, range(3)], ids=repr)
def test_values_that_java_cannot_hold_are_refused_by_every_codec(value: Any) -> None:
    for name, codec in CODECS.items():
        with pytest.raises(BadInput):
            codec.encode(value)
        if name in ("json", "kryo5", "river"):
            with pytest.raises(BadInput):
                codec.encode([value])


@cases(
    ("kind", "value"),
    [(Long, 2**63), (Short, 2**15), (Byte, 128), (Byte, -129), (Float, 1e39), (Char, "ab"), (Char, ""), (Char, "😀")],
)
def test_java_types_check_their_range(kind: Any, value: Any) -> None:
    with pytest.raises(BadInput):
        kind(value)


def test_java_types_are_ordinary_values_in_python() -> None:
    assert (Long(7), Short(7), Byte(7), Float(1.5), Char("c")) == (7, 7, 7, 1.5, "c")
    assert repr([Long(7), Float(0.1), Char("c")]) == "[Long(7), Float(0.1), Char('c')]"
    bean = Bean("a.B", {"n": Long(1)})
    for value in (Long(7), Float(1.5), Char("c"), LinkedHashMap(a=1), bean, Opaque(b"x")):
        back = pickle.loads(pickle.dumps(value))
        assert (back, type(back)) == (value, type(value))
    assert bean != {"n": 1}
    assert bean != Bean("a.C", {"n": 1})


def test_plain_removes_the_java_types() -> None:
    value = LinkedHashMap(a=[Long(1), Short(2), {Byte(3)}], b=Bean("a.B", {"c": Char("c")}), d=Float(0.5), e=None)
    assert plain(value) == {"a": [1, 2, {3}], "b": {"@class": "a.B", "c": "c"}, "d": 0.5, "e": None}
    assert {type(part) for part in (plain(value)["a"][0], plain(value))} == {int, dict}


@pytest.mark.parametrize("name", ["json", "kryo5", "river"])
def test_a_redisson_reference_is_encoded_unchanged(name: str) -> None:
    codec = codec_for(name)
    value = codec.decode(REFERENCE[name])
    assert value == Opaque(REFERENCE[name])
    assert codec.encode(value) == REFERENCE[name]


def test_every_codec_accepts_opaque_bytes() -> None:
    for codec in CODECS.values():
        assert codec.encode(Opaque(b"\xff\x00")) == b"\xff\x00"


def test_the_string_codec_formats_numbers_as_java_does() -> None:
    said = map(codec_for("string").encode, (7, True, False, 1e7, float("nan"), float("-inf")))
    assert list(said) == [b"7", b"true", b"false", b"1.0E7", b"NaN", b"-Infinity"]


def test_a_codec_is_given_by_name_or_as_an_object() -> None:
    class Mine:
        def encode(self, value: Any) -> bytes: ...
        def decode(self, raw: bytes) -> Any: ...

    mine = Mine()
    assert codec_for(mine) is mine
    assert codec_for("kryo5") is CODECS["kryo5"]
    with pytest.raises(BadInput, match="kryo5"):
        codec_for("kryo4")
    with pytest.raises(BadInput, match="codec"):
        codec_for(7)


# ---------------------------------------------------------------------------------------------- hostile and broken


def nested(name: str, times: int) -> bytes:
    if name == "json":
        return b'["java.util.ArrayList",[' * times + b"]]" * times
    if name == "river":
        return b"\x04" + b"\x53\x01\x5a" * times + b"\x01"
    # a list of one list of one list …: named once, then its number; each says same, two, its class, no nulls
    return b"\x01\x00java.util.ArrayLis\xf4" + b"\x82\x01\x00\x00" * times + b"\x01"


@cases("name", ["json", "kryo5", "river"])
@cases("times", [DEPTH, DEPTH + 1, 100_000])
def test_too_deeply_nested_values_stay_opaque(name: str, times: int) -> None:
    codec = codec_for(name)
    foreign = nested(name, times - 1 if name == "kryo5" else times)
    value = codec.decode(foreign)
    assert codec.encode(value) == foreign
    assert isinstance(value, Opaque) is (times > DEPTH and (name != "json" or times > 10_000))


def test_a_self_referencing_value_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    for name in ("json", "kryo5", "river"):
        with pytest.raises(BadInput, match="nested"):
            codec_for(name).encode(value)


@cases(
    ("name", "foreign"),
    [
        ("kryo5", b""),
        ("kryo5", b"\x03"),
        ("kryo5", b"\x03abc"),
        ("kryo5", b"\x03\xff\xff\xff\xff\x0fabc"),
        ("kryo5", b"\x03\x82\xff"),
        ("kryo5", b"\x03\x83\xed\xa0"),
        ("kryo5", b"\x02\xff\xff\xff\xff\x1f"),
        ("kryo5", b"\x02\x80"),
        ("kryo5", b"\x02\x80\x80\x80\x80\x80\x00"),
        ("kryo5", b"\x03\xff\xff\xff\xff\x7f"),
        ("kryo5", b"\x05\x02"),
        ("kryo5", b"\x0a\x00"),
        ("kryo5", b"\x00\x00"),
        ("kryo5", b"\x01\x00\x80"),
        ("kryo5", b"\x01\x00[\xc2\xff\xff\xff\xff\x0f"),
        ("kryo5", b"\x01\x00java.util.ArrayLis\xf4\xff\xff\xff\xff\x0f\x03\x00"),
        ("kryo5", b"\x01\x00java.util.HashMa\xf0\xff\xff\xff\xff\x0f"),
        ("river", b""),
        ("river", b"\x04"),
        ("river", b"\x04\x4b\x00"),
        ("river", b"\x04\x3e\x05abc"),
        ("river", b"\x04\x40\x7f\xff\xff\xff"),
        ("river", b"\x04\x40\xff\xff\xff\xff"),
        ("river", b"\x04\x44\x7f\xff\xff\xff\x21"),
        ("river", b"\x04\x55\x7f\xff\xff\xff\x5a"),
        ("river", b"\x04\x39\xff"),
        ("river", b"\x04\x50\x50"),
        ("long", b""),
        ("long", b"7.0"),
        ("long", b"9223372036854775808"),
        ("long", "٧".encode()),
        ("long", b"9" * 10_000),
        ("string", b"\xff"),
    ],
)
def test_truncated_or_invalid_bytes_raise_body_error(name: str, foreign: bytes) -> None:
    with pytest.raises(BodyError, match=r"codec"):
        codec_for(name).decode(foreign)


def test_an_oversized_list_of_nulls_stays_opaque() -> None:
    kryo5 = codec_for("kryo5")
    assert kryo5.decode(kryo5.encode([None] * 1000)) == [None] * 1000
    for foreign in (
        b"\x01\x00java.util.ArrayLis\xf4\xff\xff\xff\xff\x0f\x00",
        kryo5.encode([[None] * 600, [None] * 600]),
    ):
        assert kryo5.decode(foreign) == Opaque(foreign)


def test_keys_that_python_would_merge_stay_opaque() -> None:
    kryo5 = codec_for("kryo5")
    for foreign in (
        b"\x01\x00java.util.HashSe\xf4\x03\x02\x02\x05\x01",  # 1 and true
        b"\x01\x00java.util.HashMa\xf0\x03\x02\x02\x03\x81\x09\x02\x03\x81",  # the keys 1 and 1L
        b"\x01\x00java.util.HashSe\xf4\x82\x01\x01java.util.ArrayLis\xf4\x00\x01",  # a list in a set
    ):
        assert kryo5.decode(foreign) == Opaque(foreign)


# ------------------------------------------------------------------------------------------------- River and Kryo


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 65535, 65536, 65537])
def test_values_of_boundary_sizes_round_trip(length: int) -> None:
    values = ["x" * length, "é" * length, "😀" * (length // 2), b"x" * length]
    if length < 65537:  # else that of 65536 again
        values.append([None, 1] * (length // 2))
    for value in values:
        for name in ("river", "kryo5", "json"):
            if not isinstance(value, bytes) or name != "json":
                assert codec_for(name).decode(codec_for(name).encode(value)) == value


def test_river_writes_a_size_of_256_in_one_byte_as_java_does() -> None:
    sizes = {length: codec_for("river").encode("x" * length)[:4] for length in (255, 256, 257, 65536, 65537)}
    assert sizes == {
        255: b"\x04\x3e\xffx",
        256: b"\x04\x3e\x00x",
        257: b"\x04\x3f\x01\x01",
        65536: b"\x04\x3f\x00\x00",
        65537: b"\x04\x40\x00\x01",
    }


def test_river_reads_back_references() -> None:
    river = codec_for("river")
    assert river.decode(b"\x04\x53\x02\x5a\x3e\x01a\x39\xff") == ["a", "a"]
    assert river.decode(b"\x04\x53\x02\x5a\x42\x01\x21a\x3a\xff\xff") == [b"a", b"a"]
    assert river.decode(b"\x04\x53\x03\x5a\x3e\x01a\x3d\x02\x00\x00\x00\x01") == ["a", "", "a"]
    cycle = b"\x04\x53\x01\x5a\x39\xff"
    assert river.decode(cycle) == Opaque(cycle)


def test_a_river_decompression_bomb_stays_opaque() -> None:
    bomb = b"\x04\x54\xff\xff\x5a" + b"\x3f\xff\xff" + b"x" * 65535 + b"\x3a\xff\xff" * 65534
    assert codec_for("river").decode(bomb) == Opaque(bomb)


@pytest.mark.parametrize("name", ["json", "kryo5", "river"])
def test_half_a_surrogate_pair_round_trips(name: str) -> None:
    assert codec_for(name).decode(codec_for(name).encode("a\ud83d")) == "a\ud83d"
    with pytest.raises(BadInput, match="surrogate"):
        codec_for("string").encode("a\ud83d")


def test_kryo_marks_the_nulls_of_a_list() -> None:
    kryo5 = codec_for("kryo5")
    head = b"\x01\x00java.util.ArrayLis\xf4\x83"
    assert kryo5.encode([7, None]) == head + b"\x02\x01\x01\x0e\x00"
    assert kryo5.encode(["x", None]) == head + b"\x03\x01\x82x\x80"
    assert kryo5.encode([b"x", None]) == head + b"\x01\x01[\xc2\x01\x02x\x00"
    for value in ([7, None], ["x", None], [b"x", None], [[1], None], [{}, None], [None, 1, "x"]):
        assert kryo5.decode(kryo5.encode(value)) == value


def test_unsupported_types_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"HashMap.*json or kryo5"):
        codec_for("river").encode({"a": 1})
    with pytest.raises(BadInput, match="Bean"):
        codec_for("kryo5").encode(Bean("a.B", {}))


@pytest.mark.parametrize(("name", "value"), [("bytes", "x"), ("long", True), ("long", 1.0), ("string", None)])
def test_a_codec_of_one_type_refuses_others(name: str, value: Any) -> None:
    with pytest.raises(BadInput):
        codec_for(name).encode(value)
