"""The commands and replies of a tracking connection, without a connection."""

from __future__ import annotations

import gc
import os

import pytest

from tarry.connections.connection_limit import BLOCKED_LIMIT, ConnectionLimit
from tarry.connections.faults import ConnectionLost, ServerRefused, WrongNode
from tarry.connections.tracking import LINGER_S, RECHECK_S, SILENT, TokenWait, TrackingLoop, TrackingState
from tarry.errors import ServerUnfit

WAKE, RELAY, OTHER = b"tarry:{a}:wake", b"tarry:{a}:relay", b"tarry:{b}:wake"


def budget(*, tied: bool = False) -> TrackingState:
    tracking = TrackingState(cluster=tied)
    assert tracking.start() == [(b"CLIENT", b"TRACKING", b"ON", b"NOLOOP")]
    assert tracking.on_message(b"OK") == []
    return tracking


def token_wait(*keys: bytes) -> tuple[TokenWait, list[str]]:
    notified: list[str] = []
    return TokenWait(keys, lambda: notified.append("ring")), notified


def looks(*keys: bytes) -> list[tuple[bytes, ...]]:
    return [(b"LLEN", key) for key in keys]


def claims(key: bytes) -> list[tuple[bytes, ...]]:
    return [(b"LPOP", key)]


def test_an_existing_token_is_claimed_at_once() -> None:
    tracking, (one, notified) = budget(), token_wait(WAKE)
    assert tracking.add(one) == [(b"LLEN", WAKE)]
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message(b"1") == []
    assert (one.token, one.ended, notified) == (WAKE, True, ["ring"])
    assert tracking.idle
    assert tracking.add(token_wait(WAKE)[0]) == looks(WAKE)  # what it does itself it is not told


def test_an_invalidated_list_is_checked_and_tracked_again() -> None:
    tracking, (one, notified) = budget(), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(0)
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert tracking.on_message(0) == []  # somebody else was quicker
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)  # so here, by a moment
    assert tracking.on_message(None) == tracking.on_message(0) == []
    assert not notified
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert tracking.on_message(1) == claims(WAKE)
    tracking.on_message(b"1")
    assert one.token == WAKE


def test_one_waiter_never_claims_two_tokens() -> None:
    tracking, (one, _) = budget(), token_wait(WAKE, RELAY)
    tracking.add(one)
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message(1) == []  # the other waits until it is known what came of the first
    assert tracking.on_message([b"invalidate", [RELAY]]) == looks(RELAY)
    tracking.on_message(b"1")
    assert one.token == WAKE
    assert tracking.on_message(1) == []
    assert tracking.idle


def test_several_waits_for_one_list_look_once_and_claim_in_order() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE), token_wait(WAKE, RELAY)
    assert tracking.add(one) == looks(WAKE)
    assert tracking.on_message(0) == []
    assert tracking.add(two) == looks(RELAY)  # the other is tracked
    assert tracking.on_message(0) == []
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message(b"1") == looks(WAKE)  # for the second: nobody says that the first has taken it
    assert (one.token, two.ended) == (WAKE, False)
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message(b"1") == []
    assert two.token == WAKE
    assert tracking.idle


def test_the_next_wait_claims_what_came_during_the_claim_of_the_first() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE, RELAY), token_wait(RELAY)
    tracking.add(one)
    tracking.add(two)
    assert tracking.on_message(1) == claims(WAKE)
    assert tracking.on_message(1) == claims(RELAY)  # the first may get one already
    assert tracking.on_message(1) == []  # both may
    assert tracking.on_message(b"1") == looks(RELAY)
    assert (one.token, two.ended) == (WAKE, False)
    assert tracking.on_message(None) == []
    assert tracking.on_message(1) == claims(RELAY)
    tracking.on_message(b"1")
    assert two.token == RELAY


def test_a_wait_that_is_removed_leaves_the_others() -> None:
    tracking, (one, gone), (two, notified) = budget(), token_wait(WAKE), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(0)
    assert tracking.add(two) == []
    tracking.remove(one)
    assert (gone, notified) == (["ring"], [])
    assert tracking.on_message([b"invalidate", [WAKE]]) == looks(WAKE)
    tracking.on_message(1)
    tracking.on_message(b"1")
    assert two.token == WAKE


def test_a_wait_that_is_removed_during_its_claim_passes_the_list_on() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(0)
    tracking.add(two)
    tracking.on_message([b"invalidate", [WAKE]])
    assert tracking.on_message(1) == claims(WAKE)
    tracking.remove(one)
    assert tracking.on_message(b"1") == looks(WAKE)
    assert one.token == WAKE, "its waiter gives it back"
    assert not two.ended


def test_a_refusal_or_a_lost_connection_fails_all_waits_for_a_list() -> None:
    for refuse in (True, False):
        tracking, (one, _), (two, _) = budget(), token_wait(WAKE), token_wait(WAKE)
        tracking.add(one)
        tracking.add(two)
        if refuse:
            tracking.on_message(1)
            tracking.on_message(WrongNode("MOVED"))
        else:
            tracking.connection_lost(ConnectionLost("gone"))
        assert one.ended
        assert two.ended
        assert one.fault is not None
        assert two.fault is not None


def test_the_second_list_is_claimed_when_the_first_was_empty() -> None:
    tracking, (one, _) = budget(), token_wait(WAKE, RELAY)
    tracking.add(one)
    tracking.on_message(1)
    tracking.on_message(1)
    assert tracking.on_message(None) == claims(RELAY)


def test_a_list_that_is_still_tracked_is_not_requested_again() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE, RELAY), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(0)
    tracking.on_message(0)
    tracking.remove(one)
    assert one.ended
    assert tracking.add(two) == []
    assert tracking.on_message([b"invalidate", [WAKE, RELAY]]) == looks(WAKE)


def test_a_change_without_waiters_is_found_by_the_next_waiter() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(0)
    tracking.remove(one)
    assert tracking.on_message([b"invalidate", [WAKE]]) == []
    assert tracking.add(two) == [(b"LLEN", WAKE)]


def test_a_waiter_removed_during_a_claim_still_gets_its_token() -> None:
    tracking, (one, notified) = budget(), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(1)
    tracking.remove(one)
    assert not one.ended
    tracking.on_message(b"1")
    assert (one.token, notified) == (WAKE, ["ring"])


def test_a_waiter_removed_during_an_empty_claim_ends() -> None:
    tracking, (one, notified) = budget(), token_wait(WAKE)
    tracking.add(one)
    tracking.on_message(1)
    tracking.remove(one)
    tracking.on_message(None)
    assert (one.token, one.ended, notified) == (None, True, ["ring"])


def test_an_invalidation_of_all_keys_checks_every_list() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE), token_wait(OTHER)
    tracking.add(one)
    tracking.add(two)
    tracking.on_message(0)
    tracking.on_message(0)
    assert sorted(tracking.on_message([b"invalidate", None])) == sorted(looks(WAKE, OTHER))


def test_a_moved_list_fails_only_its_own_waiters() -> None:
    tracking, (one, _), (two, _) = budget(), token_wait(WAKE, RELAY), token_wait(OTHER)
    tracking.add(one)
    tracking.add(two)
    moved = WrongNode("MOVED 1 there")
    assert [tracking.on_message(answer) for answer in (moved, moved, 0)] == [[], [], []]
    assert (one.fault, two.ended) == (moved, False)


def test_a_lost_connection_fails_all_waiters() -> None:
    tracking, (one, _), (two, _), (three, _) = budget(), token_wait(WAKE), token_wait(OTHER), token_wait(RELAY)
    tracking.add(one)
    tracking.on_message(0)
    tracking.add(two)
    tracking.on_message(1)
    tracking.remove(two)  # its claim is on its way
    tracking.add(three)
    tracking.connection_lost(ConnectionLost("gone"))
    assert all(isinstance(each.fault, ConnectionLost) for each in (one, two, three))
    assert tracking.idle
    assert tracking.add(token_wait(WAKE)[0]) == [(b"LLEN", WAKE)]  # nothing is heard any more


def test_in_a_cluster_a_slot_is_subscribed_once_and_its_move_is_noticed() -> None:
    tracking, (one, _), (two, _) = budget(tied=True), token_wait(WAKE), token_wait(RELAY)
    assert tracking.add(one) == [(b"SSUBSCRIBE", WAKE), (b"LLEN", WAKE)]
    assert tracking.add(two) == [(b"LLEN", RELAY)]
    for answer in ([b"ssubscribe", WAKE, 1], 0, 0, [b"smessage", WAKE, b"nobody says this"]):
        assert tracking.on_message(answer) == []
    assert not tracking.awaits_reply
    tracking.on_message([b"sunsubscribe", WAKE, 0])
    assert isinstance(one.fault, WrongNode)
    assert isinstance(two.fault, WrongNode)


def test_an_unused_slot_is_unsubscribed_at_the_next_recheck() -> None:
    tracking, (one, _), (two, _) = budget(tied=True), token_wait(WAKE), token_wait(OTHER)
    tracking.add(one)
    tracking.add(two)
    for answer in ([b"ssubscribe", WAKE, 1], 0, [b"ssubscribe", OTHER, 2], 0):
        tracking.on_message(answer)
    tracking.remove(one)
    assert tracking.recheck() == [(b"SUNSUBSCRIBE", WAKE), (b"LLEN", OTHER)]
    tracking.on_message([b"sunsubscribe", WAKE, 1])
    tracking.on_message(0)
    assert not tracking.awaits_reply
    assert not two.ended


def test_a_server_without_ssubscribe_is_not_asked_again() -> None:
    tracking, (one, _), (two, _) = budget(tied=True), token_wait(WAKE), token_wait(OTHER)
    tracking.add(one)
    tracking.on_message(ServerRefused(ServerUnfit("unknown command")))
    tracking.on_message(0)
    assert not one.ended
    assert tracking.add(two) == [(b"LLEN", OTHER)]


def test_a_server_that_refuses_client_tracking_raises() -> None:
    tracking = TrackingState(cluster=False)
    tracking.start()
    refused = ServerRefused(ServerUnfit("NOPERM"))
    with pytest.raises(ServerRefused):
        tracking.on_message(refused)


def test_connection_permits_are_counted_and_returned() -> None:
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
    del two  # an object that is garbage collected gives it back
    gc.collect()
    assert budget.acquire() is not None


def test_a_forked_process_has_its_own_permits(monkeypatch: pytest.MonkeyPatch) -> None:
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


# ── the loop of its thread or task, in imaginary time ────────────────────────────────────────────────────────────────

ANSWER_S = 3.0


def loop_with(*token_waits: TokenWait, now: float = 0.0) -> TrackingLoop:
    """One that is connected, and whose lists are empty and tracked."""
    loop = TrackingLoop(now, ANSWER_S, cluster=False)
    loop.inbox.extend(token_waits)
    loop.start(now)
    replies: list[object] = [b"OK", *[0] * len(loop.turn(now)[0])]
    for reply in replies:
        loop.on_message(reply, now)
    loop.check_silence(now)
    return loop


def test_a_wait_is_begun_when_there_is_a_connection() -> None:
    loop, (one, _) = TrackingLoop(0.0, ANSWER_S, cluster=False), token_wait(WAKE)
    assert not loop.needs_connection
    loop.inbox.append(one)
    assert loop.needs_connection
    assert loop.turn(0.0)[0] == [], "nobody could send it yet"
    assert loop.start(0.0) == [(b"CLIENT", b"TRACKING", b"ON", b"NOLOOP")]
    assert not loop.needs_connection
    assert loop.turn(0.0)[0] == looks(WAKE)
    assert loop.turn(0.0)[0] == [], "once"
    one.wanted = False
    loop.inbox.append(one)
    assert loop.turn(0.0)[0] == []
    assert one.ended


def test_all_lists_are_checked_again_ten_seconds_after_the_last_check() -> None:
    loop = loop_with(token_wait(WAKE)[0], now=100.0)
    assert loop.turn(100.0) == ([], 100.0 + RECHECK_S)
    assert loop.turn(100.0 + RECHECK_S - 0.01) == ([], 100.0 + RECHECK_S)
    assert loop.turn(100.0 + RECHECK_S) == (looks(WAKE), 110.0 + ANSWER_S), "the next thing that is due is their answer"
    loop.on_message(0, 110.1)
    loop.check_silence(110.1)
    assert loop.turn(110.1) == ([], 110.0 + RECHECK_S), "not from when they were answered"


def test_an_overdue_reply_is_a_lost_connection_and_any_message_is_a_sign_of_life() -> None:
    loop, (one, _) = loop_with(), token_wait(WAKE)
    loop.inbox.append(one)
    assert loop.turn(50.0)[1] == 50.0 + ANSWER_S
    loop.check_silence(52.9)
    loop.on_message([b"invalidate", [OTHER]], 52.9)
    loop.check_silence(53.0)
    loop.inbox.append(token_wait(OTHER)[0])
    assert loop.turn(53.0)[1] == 52.9 + ANSWER_S, "a further command does not put it off"
    with pytest.raises(ConnectionLost, match=SILENT):
        loop.check_silence(52.9 + ANSWER_S)


def test_silence_is_no_fault_while_no_reply_is_expected() -> None:
    loop = loop_with(token_wait(WAKE)[0])
    loop.check_silence(1000.0)
    loop.on_message([b"invalidate", [OTHER]], 1000.0)
    loop.check_silence(2000.0)
    assert loop.turn(2000.0)[1] == 2000.0 + ANSWER_S, "counted from the next command"


def test_it_is_over_a_second_after_the_last_wait() -> None:
    one, _ = token_wait(WAKE)
    loop = loop_with(one)
    assert not loop.is_over(100.0)
    one.wanted = False
    loop.inbox.append(one)
    assert not loop.is_over(101.0), "something is in its inbox"
    assert loop.turn(101.0) == ([], 101.0 + LINGER_S)
    assert not loop.is_over(101.9)
    assert loop.turn(101.9)[1] == 101.0 + LINGER_S
    assert loop.is_over(101.0 + LINGER_S)
    loop.inbox.append(token_wait(WAKE)[0])
    assert not loop.is_over(103.0)


def test_a_lost_connection_ends_the_waits_that_were_begun_and_those_that_were_not() -> None:
    (one, _), (two, _), (gone, _) = token_wait(WAKE), token_wait(OTHER), token_wait(RELAY)
    loop, fault = loop_with(one), ConnectionLost("gone")
    loop.turn(20.0)  # a check
    gone.wanted = False
    loop.inbox.extend([two, gone])
    loop.disconnected(fault)
    assert (one.fault, two.fault, gone.fault, gone.ended) == (fault, fault, None, True)
    assert loop.turn(500.0)[0] == [], "no check without a connection"
    loop.inbox.append(token_wait(WAKE)[0])
    assert loop.needs_connection, "a new one"
    loop.start(500.0)
    loop.check_silence(500.0)
    assert loop.turn(500.0)[0] == looks(WAKE), "it is not tracked any more, and not looked at twice"
