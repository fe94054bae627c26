"""A set is written in the order in which Java writes it."""

from __future__ import annotations

import json
from typing import Any

from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.java_hash import java_hash, set_order
from tarry.verbs.redisson.values import Char, Float, Long
from walked import cases


def test_a_set_is_written_in_the_order_of_a_java_hash_set() -> None:
    assert java_hash(frozenset("ab")) == 195
    assert json.loads(codec_for("json").encode({"b", "a", "c"})) == ["java.util.HashSet", ["a", "b", "c"]]
    assert set_order({33, 1, 17, 2, 16}) == [16, 1, 17, 33, 2]
    assert set_order(set(range(100, 90, -1)) | {-2}) == [96, -2, 97, 98, 99, 100, 91, 92, 93, 94, 95]
    assert set_order({12, *range(16, 28)}) == [*range(12, 13), *range(16, 28)]  # thirteen are too many for 16 buckets
    assert codec_for("kryo5").encode({2**40, Long(0)}) == codec_for("kryo5").encode({Long(2**40), Long(0)})
    assert codec_for("kryo5").encode({"b", "a"}) == codec_for("kryo5").encode(frozenset(["a", "b"]))


@cases(
    ("value", "hashed"),
    [
        ("", 0),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),
        ("Aa", 2112),
        ("BB", 2112),
        (-1, -1),
        (Long(-1), 0),
        (2**32, 1),
        (True, 1231),
        (1.0, 1072693248),
        (Float(1.0), 1065353216),
        (Char("a"), 97),
        (("a", "b"), 4066),
        (None, 0),
        (b"abc", 0),
    ],
    ids=repr,
)
def test_hashes_equal_those_of_java(value: Any, hashed: int) -> None:
    assert java_hash(value) == hashed & 0xFFFF_FFFF
