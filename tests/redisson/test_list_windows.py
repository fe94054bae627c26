"""How long a caller waits for an element, and what a fault means to it: without a server, in imaginary time."""

from __future__ import annotations

import pytest

from tarry import Unavailable
from tarry.clients.redisson.queue_waits import WINDOW_S, Windows, blpop
from tarry.connections.faults import ConnectionLost, ServerRefused, WrongNode
from tarry.errors import ServerUnfit

LOST = ConnectionLost("gone")


def test_a_long_wait_is_cut_into_windows_and_ends_in_time() -> None:
    windows = Windows(100.0, 12.0)
    assert [windows.next(now) for now in (100.0, 105.0, 110.0)] == [WINDOW_S, WINDOW_S, 2.0]
    assert windows.next(112.0) is None
    windows.raise_fault("a server")


def test_no_window_is_for_ever() -> None:
    assert blpop((b"a", b"b"), 1.5) == (b"BLPOP", b"a", b"b", b"1.500")
    assert blpop((b"a",), 0.0002) == (b"BLPOP", b"a", b"0.001")


def test_pauses_grow_until_the_server_answers_and_never_outlast_the_caller() -> None:
    windows = Windows(0.0, 10.0)
    assert [windows.pause_after(LOST, 1.0) for _ in range(3)] == [0.02, 0.04, 0.08]
    windows.answered()
    assert windows.pause_after(LOST, 1.0) == 0.02
    windows.pause_after(LOST, 1.0)
    assert windows.pause_after(LOST, 9.99) == pytest.approx(0.01)
    assert windows.pause_after(LOST, 11.0) == 0


def test_servers_are_looked_for_after_a_second_fault_or_when_a_slot_has_moved() -> None:
    windows = Windows(0.0, 10.0)
    windows.pause_after(LOST, 0.0)
    assert not windows.needs_refresh
    windows.pause_after(LOST, 0.0)
    assert windows.needs_refresh
    windows.answered()
    assert not windows.needs_refresh
    windows.pause_after(WrongNode("moved"), 0.0)
    assert windows.needs_refresh


def test_no_server_at_the_end_is_not_the_same_as_no_element() -> None:
    windows = Windows(0.0, 10.0)
    windows.pause_after(LOST, 0.0)
    with pytest.raises(Unavailable, match="gone"):
        windows.raise_fault("a server")
    windows.answered()
    windows.raise_fault("a server")


def test_a_refusal_for_good_is_raised_at_once() -> None:
    with pytest.raises(ServerUnfit, match="not a list"):
        Windows(0.0, 10.0).pause_after(ServerRefused(ServerUnfit("not a list")), 0.0)
