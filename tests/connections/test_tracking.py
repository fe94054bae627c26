"""What is said and heard on a lookout's connection, without one."""

from __future__ import annotations

import gc
import os

import pytest

from tarry.connections.connection_limit import BLOCKED_LIMIT, ConnectionLimit
from tarry.connections.faults import ConnectionLost, ServerRefused, WrongNode
from tarry.connections.tracking import TokenWait, TrackingState
from tarry.errors import ServerUnfit

WAKE, RELAY, OTHER = b"tarry:{a}:wake", b"tarry:{a}:relay", b"tarry:{b}:wake"


def budget(*, tied: bool = False) -> TrackingState:
    orders = TrackingState(cluster=tied)
    assert orders.start() == [(b"CLIENT", b"TRACKING", b"ON", b"NOLOOP")]
    assert orders.on_message(b"OK") == []
    return orders


def wish(*keys: bytes) -> tuple[TokenWait, list[str]]:
    rung: list[str] = []
    return TokenWait(keys, lambda: rung.append("ring")), rung


def looks(*keys: bytes) -> list[tuple[bytes, ...]]:
    return [(b"LLEN", key) for key in keys]


def claims(key: bytes) -> list[tuple[bytes, ...]]:
    return [(b"LPOP", key)]


def test_a_token_that_lies_there_is_claimed_at_once() -> None:
    orders, (one, rung) = budget(), wish(WAKE)
    assert orders.add(one) == [(b"LLEN", WAKE)]
    assert orders.on_message(1) == claims(WAKE)
    assert orders.on_message(b"1") == []
    assert (one.token, one.ended, rung) == (WAKE, True, ["ring"])
    assert orders.idle
    assert orders.add(wish(WAKE)[0]) == looks(WAKE)  # what it does itself it is not told


def test_a_list_that_changes_is_looked_at_and_heard_again() -> None:
    orders, (one, rung) = budget(), wish(WAKE)
    orders.add(one)
    orders.on_message(0)
    assert orders.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert orders.on_message(0) == []  # somebody else was quicker
    assert orders.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert orders.on_message(1) == claims(WAKE)
    assert orders.on_message([b"invalidate", [WAKE]]) == looks(WAKE)  # so here, by a moment
    assert orders.on_message(None) == orders.on_message(0) == []
    assert not rung
    assert orders.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert orders.on_message(1) == claims(WAKE)
    orders.on_message(b"1")
    assert one.token == WAKE


def test_two_tokens_are_never_claimed_by_one_hand() -> None:
    orders, (one, _) = budget(), wish(WAKE, RELAY)
    orders.add(one)
    assert orders.on_message(1) == claims(WAKE)
    assert orders.on_message(1) == []  # the other waits until it is known what came of the first
    assert orders.on_message([b"invalidate", [RELAY]]) == looks(RELAY)
    orders.on_message(b"1")
    assert one.token == WAKE
    assert orders.on_message(1) == []
    assert orders.idle


def test_the_second_list_is_tried_when_the_first_was_empty() -> None:
    orders, (one, _) = budget(), wish(WAKE, RELAY)
    orders.add(one)
    orders.on_message(1)
    orders.on_message(1)
    assert orders.on_message(None) == claims(RELAY)


def test_a_list_that_is_still_heard_need_not_be_asked_for_again() -> None:
    orders, (one, _), (two, _) = budget(), wish(WAKE, RELAY), wish(WAKE)
    orders.add(one)
    orders.on_message(0)
    orders.on_message(0)
    orders.remove(one)
    assert one.ended
    assert orders.add(two) == []
    assert orders.on_message([b"invalidate", [WAKE, RELAY]]) == looks(WAKE)


def test_a_change_while_nobody_waits_is_found_by_who_comes_next() -> None:
    orders, (one, _), (two, _) = budget(), wish(WAKE), wish(WAKE)
    orders.add(one)
    orders.on_message(0)
    orders.remove(one)
    assert orders.on_message([b"invalidate", [WAKE]]) == []
    assert orders.add(two) == [(b"LLEN", WAKE)]


def test_who_leaves_in_the_moment_of_a_claim_gets_its_token_to_answer() -> None:
    orders, (one, rung) = budget(), wish(WAKE)
    orders.add(one)
    orders.on_message(1)
    orders.remove(one)
    assert not one.ended
    orders.on_message(b"1")
    assert (one.token, rung) == (WAKE, ["ring"])


def test_who_leaves_in_the_moment_of_a_claim_that_brings_nothing_is_let_go() -> None:
    orders, (one, rung) = budget(), wish(WAKE)
    orders.add(one)
    orders.on_message(1)
    orders.remove(one)
    orders.on_message(None)
    assert (one.token, one.ended, rung) == (None, True, ["ring"])


def test_a_flush_and_a_full_table_are_looked_into() -> None:
    orders, (one, _), (two, _) = budget(), wish(WAKE), wish(OTHER)
    orders.add(one)
    orders.add(two)
    orders.on_message(0)
    orders.on_message(0)
    assert sorted(orders.on_message([b"invalidate", None])) == sorted(looks(WAKE, OTHER))


def test_a_moved_list_concerns_only_who_waits_for_it() -> None:
    orders, (one, _), (two, _) = budget(), wish(WAKE, RELAY), wish(OTHER)
    orders.add(one)
    orders.add(two)
    moved = WrongNode("MOVED 1 there")
    assert [orders.on_message(answer) for answer in (moved, moved, 0)] == [[], [], []]
    assert (one.fault, two.ended) == (moved, False)


def test_a_broken_connection_concerns_everybody() -> None:
    orders, (one, _), (two, _), (three, _) = budget(), wish(WAKE), wish(OTHER), wish(RELAY)
    orders.add(one)
    orders.on_message(0)
    orders.add(two)
    orders.on_message(1)
    orders.remove(two)  # its claim is on its way
    orders.add(three)
    orders.connection_lost(ConnectionLost("gone"))
    assert all(isinstance(each.fault, ConnectionLost) for each in (one, two, three))
    assert orders.idle
    assert orders.add(wish(WAKE)[0]) == [(b"LLEN", WAKE)]  # nothing is heard any more


def test_in_a_cluster_a_slot_is_tied_once_and_tells_when_it_leaves() -> None:
    orders, (one, _), (two, _) = budget(tied=True), wish(WAKE), wish(RELAY)
    assert orders.add(one) == [(b"SSUBSCRIBE", WAKE), (b"LLEN", WAKE)]
    assert orders.add(two) == [(b"LLEN", RELAY)]
    for answer in ([b"ssubscribe", WAKE, 1], 0, 0, [b"smessage", WAKE, b"nobody says this"]):
        assert orders.on_message(answer) == []
    assert not orders.awaits_reply
    orders.on_message([b"sunsubscribe", WAKE, 0])
    assert isinstance(one.fault, WrongNode)
    assert isinstance(two.fault, WrongNode)


def test_a_slot_that_nobody_needs_is_untied_at_the_next_look_around() -> None:
    orders, (one, _), (two, _) = budget(tied=True), wish(WAKE), wish(OTHER)
    orders.add(one)
    orders.add(two)
    for answer in ([b"ssubscribe", WAKE, 1], 0, [b"ssubscribe", OTHER, 2], 0):
        orders.on_message(answer)
    orders.remove(one)
    assert orders.recheck() == [(b"SUNSUBSCRIBE", WAKE), (b"LLEN", OTHER)]
    orders.on_message([b"sunsubscribe", WAKE, 1])
    orders.on_message(0)
    assert not orders.awaits_reply
    assert not two.ended


def test_a_server_that_knows_no_ties_is_not_asked_for_them_again() -> None:
    orders, (one, _), (two, _) = budget(tied=True), wish(WAKE), wish(OTHER)
    orders.add(one)
    orders.on_message(ServerRefused(ServerUnfit("unknown command")))
    orders.on_message(0)
    assert not one.ended
    assert orders.add(two) == [(b"LLEN", OTHER)]


def test_a_server_that_does_not_tell_of_changes_is_unfit() -> None:
    orders = TrackingState(cluster=False)
    orders.start()
    refused = ServerRefused(ServerUnfit("NOPERM"))
    with pytest.raises(ServerRefused):
        orders.on_message(refused)


def test_permits_are_counted_and_come_back() -> None:
    budget = ConnectionLimit(2)
    one, two = budget.acquire(), budget.acquire()
    assert one is not None
    assert two is not None
    assert budget.acquire() is None
    one.release()
    one.release()
    three = budget.acquire()
    assert three is not None
    assert budget.acquire() is None
    del two  # whoever forgets it gives it back
    gc.collect()
    assert budget.acquire() is not None


def test_a_forked_process_has_permits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BLOCKED_LIMIT, "maximum", 1)
    mine = BLOCKED_LIMIT.acquire()
    assert mine is not None
    child = os.fork()
    if child == 0:
        try:
            own = BLOCKED_LIMIT.acquire()
            mine.release()  # the parent's: it changes nothing here
            os._exit(0 if own is not None and BLOCKED_LIMIT.acquire() is None else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert BLOCKED_LIMIT.acquire() is None
    mine.release()
