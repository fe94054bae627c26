"""Whom to believe of Sentinels that disagree; and how few of them are enough."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.both_clients import KINDS, AnyClient
from server_groups import MASTER, Sentinels, sentinels
from tarry.connections.sentinels import MasterReport, choose_report

OLD, NEW = MasterReport("redis://old", 3), MasterReport("redis://new", 4)


def test_the_newest_is_believed_however_few_say_it() -> None:
    assert choose_report([OLD, OLD, NEW], OLD, total=3) == NEW
    assert choose_report([OLD, NEW], None, total=3) == NEW


def test_those_who_are_behind_are_not_believed_again() -> None:
    assert choose_report([OLD], NEW, total=3) is None
    assert choose_report([OLD, OLD], NEW, total=3) is None


def test_an_older_epoch_is_trusted_if_all_sentinels_report_it() -> None:
    assert choose_report([OLD, OLD, OLD], NEW, total=3) == OLD


def test_of_the_newest_most_are_believed_and_the_one_before_if_they_are_as_many() -> None:
    other = MasterReport("redis://other", 4)
    assert choose_report([other, NEW, NEW], None, total=3) == NEW
    assert choose_report([other, NEW], NEW, total=3) == NEW
    assert choose_report([NEW, other], other, total=3) == other


def test_nobody_is_believed_where_nobody_answers() -> None:
    assert choose_report([], NEW, total=3) is None


def test_it_is_up_if_one_of_those_who_are_believed_sees_it() -> None:
    down = MasterReport(NEW.url, NEW.epoch, up=False)
    seen = choose_report([down, NEW, OLD], None, total=3)
    assert seen is not None
    assert seen.up
    unseen = choose_report([down, down, OLD], None, total=3)
    assert unseen is not None
    assert not unseen.up


@pytest.fixture
def trio() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


@pytest.mark.otherserver
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_three_is_enough_if_the_others_are_dead_or_frozen(trio: Sentinels, kind: str) -> None:
    before = AnyClient(kind, trio.url, None)
    before.call(before.topic("orders"), "add", "tea")
    dead, frozen, _ = trio.watchers
    dead.kill()
    frozen.freeze()
    after = AnyClient(kind, trio.url, None)
    try:
        for way in (before, after):
            assert way.call(way.topic("orders"), "add", "tea").created
    finally:
        frozen.resume()
        before.close()
        after.close()


@pytest.mark.otherserver
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_master_that_was_named_anew_with_an_older_number_is_found(trio: Sentinels, kind: str) -> None:
    """As after an operator has taken it away from the Sentinels, and given it to them again."""
    with trio.switching():
        pass
    way = AnyClient(kind, trio.url, None, patience=30)
    way.call(way.topic("orders"), "add", "tea")
    port = trio.ways.port_of(trio.master())
    for one in trio.watchers:
        one.ask("SENTINEL", "REMOVE", MASTER)
    for one in trio.watchers:
        one.ask("SENTINEL", "MONITOR", MASTER, "127.0.0.1", str(port), "2")
    trio.master().ask("CLIENT", "KILL", "TYPE", "normal")
    way.call(way.topic("orders"), "add", "tea")
    way.close()
