"""Packed elements of both formats are told apart, and packed as Redisson packs them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redisson.recorded import check_each, each_codec, is_what, raw, rows
from tarry.errors import BadInput
from tarry.verbs.redisson.elements import BadElement, Element, Format, pack, unpack

OFFERS = rows("offers")
MARKS = st.binary(min_size=8, max_size=8)


def format_of(row: dict) -> Format:
    return Format.OLD if row["version"] == "3.16.8" else Format.NEW


def mark_of(row: dict) -> bytes:
    if format_of(row) is Format.OLD:
        return int(row["random_argv"]).to_bytes(8, "little", signed=True)
    return raw(row["random_argv"])


def payload_of(row: dict) -> bytes:
    known = raw(row["value_argv"])
    if known is not None:
        return known
    head = bytes.fromhex(row["value_argv"]["head_hex"])
    digits = b"0123456789" * 7000  # the only value that is too long to be recorded whole
    start = head[: head.index(b"0123")]
    return start + digits + (b'"' if start.endswith(b'"') else b"")


def name_of(row: dict) -> str:
    return f"{row['version']} {row['codec']} {row['spec'][:20]}"


@each_codec(OFFERS)
def test_an_element_is_packed_byte_for_byte_like_javas(recorded: list[dict]) -> None:
    check_each(recorded, name_of, check_offer)


def check_offer(row: dict) -> None:
    made = pack(payload_of(row), mark_of(row), format_of(row))
    assert is_what(made, row["member"])
    assert unpack(made) == Element(format_of(row), payload_of(row))


@each_codec(rows("transfers"))
def test_unpacking_finds_the_payload_that_java_moved(recorded: list[dict]) -> None:
    check_each(recorded, lambda row: f"{row['version']} {row['codec']}", check_transfer)


def check_transfer(row: dict) -> None:
    queue = row["scripts"][0]["keys"][0]
    moved = [raw(command[2]) for command in row["inner"] if command[:2] == ["rpush", queue]]
    removed = [unpack(raw(command[3])) for command in row["inner"] if command[0] == "lrem"]
    assert moved
    assert [element.payload for element in removed] == moved


def test_the_recordings_are_complete() -> None:
    assert len(OFFERS) == 155
    assert {format_of(row) for row in OFFERS} == set(Format)
    assert len(rows("transfers")) == 20


@given(st.binary(), MARKS, st.sampled_from(Format))
def test_a_payload_round_trips_in_either_format(payload: bytes, mark: bytes, format: Format) -> None:
    both = payload == b"\0" and format is Format.OLD  # 17 bytes that could be either
    found = unpack(pack(payload, mark, format))
    assert found == Element(format, payload) or (both and found == Element(Format.NEW, b""))


@given(st.binary())
@example(b"")
@example(b"\x08" + bytes(16))
@example(b"\xff" * 17)
def test_unpacking_arbitrary_bytes_never_raises(element: bytes) -> None:
    found = unpack(element)
    assert isinstance(found, BadElement) or element.endswith(found.payload)


@pytest.mark.parametrize(
    "element",
    [
        b"",
        b"plain text",
        b"\x08" * 15,
        b"\x08" + b"mark8byt" + (3).to_bytes(8, "little") + b"ab",
        b"\x08" + b"mark8byt" + (3).to_bytes(8, "big") + b"abc",
        b"\x08" + b"mark8byt" + (3).to_bytes(4, "little") + b"abc",
        b"\x07" + b"mark8byt" + (3).to_bytes(8, "little") + b"abc",
        b"\x08" + b"mark8byt" + b"\xff" * 8 + b"abc",
    ],
    ids=["empty", "text", "short", "truncated", "big endian", "windows", "another count", "endless"],
)
def test_invalid_elements_are_poison_with_a_reason(element: bytes) -> None:
    found = unpack(element)
    assert isinstance(found, BadElement)
    assert str(len(element)) in found.reason


def test_an_ambiguous_element_is_read_in_the_new_format() -> None:
    element = b"\x08" + bytes(7) + (1).to_bytes(8, "little") + b"\0"
    assert unpack(element) == Element(Format.NEW, b"")


def test_a_mark_must_have_eight_bytes() -> None:
    with pytest.raises(BadInput, match="eight"):
        pack(b"", b"1234567")
