"""Values and events of a map cache are packed as Redisson packs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson.recorded import check_each, each_codec, raw, rows
from tarry.errors import BadInput
from tarry.verbs.redisson import names
from tarry.verbs.redisson.elements import BadElement
from tarry.verbs.redisson.entries import EntryEvent, PackedEntry, pack_entry, pack_event, unpack_entry, unpack_event

WRITES = rows("map_cache_writes")
EVENTS = rows("map_cache_events")


def name_of(row: dict) -> str:
    return f"{row['version']} {row['codec']} {row['do']}"


@each_codec(WRITES)
def test_an_entry_of_java_is_unpacked_and_packed_identically(recorded: list[dict]) -> None:
    check_each(recorded, name_of, check_entry)


def check_entry(row: dict) -> None:
    packed = raw(row["value"])
    entry = unpack_entry(packed)
    assert isinstance(entry, PackedEntry)
    assert pack_entry(entry) == packed
    idles = names.map_cache(row["hash"]).idles
    touched = any(command[1] == idles and raw(command[3]) == raw(row["field"]) for command in row["zadd"])
    quirk = row["do"].startswith("mapcache.putIfAbsent") and not entry.idle_ms
    assert touched is bool(entry.idle_ms) or quirk


@each_codec(EVENTS)
def test_an_event_of_java_is_unpacked_and_packed_identically(recorded: list[dict]) -> None:
    check_each(recorded, name_of, check_event)


def check_event(row: dict) -> None:
    message = raw(row["payload"])
    event = unpack_event(message, updated="_updated:" in row["channel"])
    assert isinstance(event, EntryEvent)
    assert pack_event(event) == message
    assert (event.old is not None) is ("_updated:" in row["channel"])


def test_the_recordings_are_complete() -> None:
    assert (len(WRITES), len(EVENTS)) == (279, 350)


@given(st.binary(), st.floats(min_value=0, allow_infinity=False))
def test_an_entry_round_trips(value: bytes, idle_ms: float) -> None:
    assert unpack_entry(pack_entry(PackedEntry(value, idle_ms))) == PackedEntry(value, idle_ms)


@given(st.binary(), st.binary(), st.none() | st.binary())
def test_an_event_round_trips(key: bytes, value: bytes, old: bytes | None) -> None:
    event = EntryEvent(key, value, old)
    assert unpack_event(pack_event(event), updated=old is not None) == event


@given(st.binary(), st.booleans())
def test_unpacking_arbitrary_entries_and_events_never_raises(foreign: bytes, updated: bool) -> None:
    assert isinstance(unpack_entry(foreign), (PackedEntry, BadElement))
    assert isinstance(unpack_event(foreign, updated=updated), (EntryEvent, BadElement))


def test_invalid_entries_are_poison_with_a_reason() -> None:
    whole = pack_entry(PackedEntry(b"abc", 5.0))
    assert isinstance(unpack_entry(b"plain"), BadElement)
    assert unpack_entry(whole[:-1]) == BadElement("the length says 3 bytes, 2 follow")
    assert unpack_entry(whole + b"d") == BadElement("the length says 3 bytes, 4 follow")
    assert unpack_entry(b"\0\0\0\0\0\0\xf8\x7f" + bytes(8)) == BadElement("the idle time is nan")


def test_an_event_of_another_channel_is_poison() -> None:
    assert isinstance(unpack_event(pack_event(EntryEvent(b"k", b"v")), updated=True), BadElement)
    assert isinstance(unpack_event(pack_event(EntryEvent(b"k", b"v", b"o"))), BadElement)
    assert isinstance(unpack_event(b"\xff" * 24), BadElement)


@pytest.mark.parametrize("idle_ms", [-1.0, float("nan"), float("inf")])
def test_an_idle_time_is_a_number_of_milliseconds(idle_ms: float) -> None:
    with pytest.raises(BadInput, match="max_idle"):
        pack_entry(PackedEntry(b"", idle_ms))
