"""Names of topics and namespaces, and ids: their rules, and how they are made."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.errors import BadInput
from tarry.values import keys, names
from walked import cases

GOOD = [
    "a", "0", "测试", "订单/未付款", "a b", "a/b:c", "😀", "x" * 200, "测" * 66, "é", "e\u0301", "-", "_", "*", "'\"\\", "a\u00a0b",
]  # fmt: skip
BAD: list[Any] = [
    "", " ", "a ", " a", "\ta", "a\n", "a\nb", "a\x00", "\x1f", "a\x7f", "a\x80b", "a\x9fb", "a{b", "}", "{a}", "a\u2028b",
    "a\u2029", "\u00a0a", "a\u3000", "x" * 201, "测" * 67, "\ud800", "a\udfff", b"a", 1, 1.5, None, True, ["a"],
]  # fmt: skip


@cases("value", GOOD)
def test_a_name_is_encoded_as_utf8(value: str) -> None:
    assert names.check_name(value, "id") == value.encode()


@cases("value", BAD, ids=ascii)
def test_an_invalid_name_is_refused(value: Any) -> None:
    for what in ("id", "topic"):
        with pytest.raises(BadInput, match=f"^{what}: ."):
            names.check_name(value, what)


@pytest.mark.parametrize(("value", "hint"), [(7, "write str(id)"), (201 * "x", "201 bytes"), ("a ", "strip it")])
def test_the_refusal_gives_advice(value: Any, hint: str) -> None:
    with pytest.raises(BadInput) as told:
        names.check_name(value, "id")
    assert hint in str(told.value)


@given(st.text(max_size=210))
def test_an_accepted_name_is_safe_inside_a_hash_tag(value: str) -> None:
    try:
        raw = names.check_name(value, "topic")
    except BadInput:
        return
    assert 1 <= len(raw) <= 200
    assert not any(byte < 0x20 or byte in b"{}\x7f" for byte in raw)
    assert raw.decode() == value == value.strip()


def test_all_keys_of_a_topic_share_one_hash_tag() -> None:
    made = keys.topic_keys("ns", "测/试")
    assert len(set(made)) == len(keys.TOPIC_PARTS)
    for key, part in zip(made, keys.TOPIC_PARTS, strict=True):
        assert key == b"tarry:{ns/" + "测/试".encode() + b"}:" + part.encode()
    assert keys.topics_key("ns") == b"tarry:ns:topics"


def test_different_namespaces_and_topics_never_share_keys() -> None:
    with pytest.raises(BadInput, match="'/'"):
        keys.topic_keys("a/b", "c")
    assert keys.topic_keys("a", "b/c").due != keys.topic_keys("b", "c").due


def ids(ms: list[int]) -> names.IdGenerator:
    """Ids by a clock that is given."""
    return names.IdGenerator(lambda: ms[0] * 1_000_000, os.urandom)


def test_generated_ids_are_valid_and_short() -> None:
    made = ids([1_800_000_000_000])
    for raw in [made.new(), *made.new_many(100)]:
        assert names.check_name(raw.decode(), "id") == raw
        assert raw.isascii()
        assert len(raw) <= 24
        assert not raw.startswith(b"-"), "a command line would take it for an option"


def test_a_hundred_thousand_ids_of_one_millisecond_differ() -> None:
    made = ids([1_800_000_000_000])
    assert len({*made.new_many(50_000), *[made.new() for _ in range(50_000)]}) == 100_000


@given(st.integers(1_000_000_000_000, 4_000_000_000_000), st.integers(1, 10**9))
def test_later_ids_sort_after_earlier_ones(ms: int, later: int) -> None:
    clock = [ms]
    early = ids(clock).new_many(2)
    clock[0] = ms + later
    assert max(early) < min(ids(clock).new_many(2))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_generates_different_ids() -> None:
    made = ids([1_800_000_000_000])
    made.new()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, b"".join(made.new() + b" " for _ in range(20)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 4096).split()
    os.close(reader)
    os.close(writer)
    assert len({*theirs, *[made.new() for _ in range(20)]}) == 40


def test_a_client_name_never_looks_like_a_command_option() -> None:
    starts = {names.random_word(lambda n, first=first: bytes([first]) + b"." * (n - 1))[:1] for first in range(256)}
    assert len(starts) == 64
    assert b"-" not in starts
