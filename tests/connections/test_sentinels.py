"""Sentinels that disagree: which of them is right, and how few are enough."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from faults.any_client import KINDS, AnyClient
from server_groups import MASTER, Sentinels, sentinels
from tarry.connections.address import find_address
from tarry.connections.faults import ServerRefused
from tarry.connections.sentinels import MasterReport, choose_report
from tarry.connections.topology import Topology
from tarry.errors import ServerUnfit

OLD, NEW = MasterReport("redis://old", 3), MasterReport("redis://new", 4)


def test_the_newest_report_wins_even_from_one_sentinel() -> None:
    assert choose_report([OLD, OLD, NEW], OLD, total=3) == NEW
    assert choose_report([OLD, NEW], None, total=3) == NEW


def test_reports_older_than_the_last_one_are_ignored() -> None:
    assert choose_report([OLD], NEW, total=3) is None
    assert choose_report([OLD, OLD], NEW, total=3) is None


def test_an_older_epoch_is_trusted_if_all_sentinels_report_it() -> None:
    assert choose_report([OLD, OLD, OLD], NEW, total=3) == OLD


def test_the_majority_of_the_newest_reports_wins_and_a_tie_changes_nothing() -> None:
    other = MasterReport("redis://other", 4)
    assert choose_report([other, NEW, NEW], None, total=3) == NEW
    assert choose_report([other, NEW], NEW, total=3) == NEW
    assert choose_report([NEW, other], other, total=3) == other


def test_no_report_is_chosen_when_no_sentinel_answers() -> None:
    assert choose_report([], NEW, total=3) is None


def test_the_master_is_up_if_one_agreeing_sentinel_reaches_it() -> None:
    down = MasterReport(NEW.url, NEW.epoch, up=False)
    seen = choose_report([down, NEW, OLD], None, total=3)
    assert seen is not None
    assert seen.up
    unseen = choose_report([down, down, OLD], None, total=3)
    assert unseen is not None
    assert not unseen.up


@pytest.fixture
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


@pytest.mark.otherserver
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_live_sentinel_of_three_is_enough(sentinel_group: Sentinels, kind: str) -> None:
    before = AnyClient(kind, sentinel_group.url, None)
    before.call(before.topic("orders"), "add", "tea")
    dead, frozen, _ = sentinel_group.watchers
    dead.kill()
    frozen.freeze()
    after = AnyClient(kind, sentinel_group.url, None)
    try:
        for any_client in (before, after):
            assert any_client.call(any_client.topic("orders"), "add", "tea").is_new
    finally:
        frozen.resume()
        before.close()
        after.close()


@pytest.mark.otherserver
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_master_monitored_again_with_an_older_epoch_is_found(sentinel_group: Sentinels, kind: str) -> None:
    """As after an operator has taken it away from the Sentinels, and given it to them again."""
    with sentinel_group.switching():
        pass
    any_client = AnyClient(kind, sentinel_group.url, None, patience=30)
    any_client.call(any_client.topic("orders"), "add", "tea")
    port = sentinel_group.transport.port_of(sentinel_group.master())
    for one in sentinel_group.watchers:
        one.ask("SENTINEL", "REMOVE", MASTER)
    for one in sentinel_group.watchers:
        one.ask("SENTINEL", "MONITOR", MASTER, "127.0.0.1", str(port), "2")
    sentinel_group.master().ask("CLIENT", "KILL", "TYPE", "normal")
    any_client.call(any_client.topic("orders"), "add", "tea")
    any_client.close()


def test_a_stranger_at_a_sentinels_address_is_a_fault() -> None:
    """A listener tries again after any ``Fault``; another exception would end it for good."""

    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as page:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        topology = Topology(find_address(f"redis+sentinel://127.0.0.1:{page.server_port}/shop", {}))
        with pytest.raises(ServerUnfit):
            topology.refresh(5)
        try:
            with pytest.raises(ServerRefused, match="is not Redis or Valkey"):
                topology.confirm_master("redis://127.0.0.1:1", 5)
        finally:
            topology.close()
            page.shutdown()
