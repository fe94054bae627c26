"""Any value survives a round trip; any bytes decode as a value, as Opaque, or raise BodyError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redisson.recorded import vectors
from tarry.errors import BodyError
from tarry.verbs.redisson.codecs import CODECS, codec_for
from tarry.verbs.redisson.values import Bean, Byte, Char, Float, LinkedHashMap, Long, Short, java_type

SEEDS = {
    name: [bytes.fromhex(row[3]) for row in vectors() if row[0] == name and not row[3].endswith("...")]
    for name in ("json", "kryo5", "river")
}
SEEDS |= {"long": [b"-42"], "string": [b"text"], "bytes": [b"bytes"]}

calm = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure

texts = st.text(max_size=40)
keys = texts.filter(lambda text: text != "@class")
hashable = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(2**63), 2**63 - 1).map(Long)
    | st.integers(-(2**15), 2**15 - 1).map(Short)
    | st.integers(-128, 127).map(Byte)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(allow_nan=False, allow_infinity=False, width=32).map(Float)
    | texts
    | st.characters(max_codepoint=0xFFFF).map(Char)
    | st.binary(max_size=40)
)
scalars = st.none() | hashable


def with_lists(inner: Any) -> Any:
    return st.lists(inner, max_size=4)


def with_maps(inner: Any) -> Any:
    maps = st.dictionaries(hashable, inner, max_size=4)
    return with_lists(inner) | maps | maps.map(LinkedHashMap) | st.sets(hashable, max_size=4)


def with_beans(inner: Any) -> Any:
    maps = st.dictionaries(keys, inner.filter(lambda value: value is not None), max_size=4)
    beans = maps.map(lambda fields: Bean("com.shop.Order", fields))
    return with_lists(inner) | maps | maps.map(LinkedHashMap) | beans | st.sets(hashable, max_size=4)


VALUES = {
    "river": st.recursive(scalars, with_lists, max_leaves=12),
    "kryo5": st.recursive(scalars, with_maps, max_leaves=12),
    "json": with_lists(st.recursive(scalars, with_beans, max_leaves=12)),  # inside, where every type is told
    "string": texts,
    "long": st.integers(-(2**63), 2**63 - 1),
    "bytes": st.binary(),
}


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same Java types all the way down."""
    if java_type(one) != java_type(other) or one != other:
        return False
    if java_type(one) == "HashMap":  # read in Java's order
        ours = {key: key for key in one}
        return all(same(key, ours[key]) and same(one[ours[key]], item) for key, item in other.items())
    if isinstance(one, dict):
        return all(same(key, ours) and same(one[key], other[ours]) for key, ours in zip(one, other, strict=True))
    return not isinstance(one, list) or all(map(same, one, other))


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
@calm
@given(data=st.data())
def test_a_value_round_trips_with_its_types(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    encoded = codec_for(name).encode(value)
    assert same(codec_for(name).decode(encoded), value)
    assert codec_for(name).encode(codec_for(name).decode(encoded)) == encoded


def survives(name: str, foreign: bytes) -> None:
    codec = codec_for(name)
    try:
        value = codec.decode(foreign)
    except BodyError:
        return
    again = codec.encode(value)  # what was read can be written
    assert codec.encode(codec.decode(again)) == again


@pytest.mark.parametrize("name", CODECS)
@calm
@given(foreign=st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_body_errors(name: str, foreign: bytes) -> None:
    survives(name, foreign)


@pytest.mark.slow
@pytest.mark.parametrize("name", CODECS)
@calm
@given(data=st.data())
def test_damaged_bytes_raise_only_body_errors(name: str, data: st.DataObject) -> None:
    foreign = bytearray(data.draw(st.sampled_from(SEEDS[name])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(foreign)))
        foreign[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    survives(name, bytes(foreign))


names = st.sampled_from(
    ["java.lang.Long", "java.util.ArrayList", "java.util.HashSet", "java.util.HashMap", "[B", "java.lang.Short", "a.B"]
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(names, inner).map(list)
        | st.tuples(names, st.lists(inner, max_size=3)).map(list)
        | st.dictionaries(texts, inner, max_size=3)
        | st.tuples(names, st.dictionaries(texts, inner, max_size=3)).map(lambda both: {"@class": both[0]} | both[1])
    ),
    max_leaves=20,
)


@calm
@given(trees)
def test_any_valid_json_is_decoded(tree: Any) -> None:
    foreign = json.dumps(tree).encode()
    value = codec_for("json").decode(foreign)
    again = codec_for("json").encode(value)
    assert codec_for("json").encode(codec_for("json").decode(again)) == again
