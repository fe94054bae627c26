"""The life of an embedded server, with real processes: who starts it, who finds it, when it ends."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import servers
from embedded import users
from embedded.users import User
from tarry.connections.embedded import folder_files, resp
from tarry.connections.embedded.shared_server import join_server
from tarry.errors import BadInput

SHORT_S = 0.3


def test_ten_processes_at_once_get_one_server(folder: Path) -> None:
    with ExitStack() as stack:
        ten = [stack.enter_context(User(folder, wait=False)) for _ in range(10)]
        told = [user.told for user in ten]
        assert len({one["url"] for one in told}) == 1
        assert sum(one["started"] for one in told) == 1
        assert len({users.server_pid(folder) for _ in ten}) == 1


def test_the_second_finds_what_the_first_has_put_in(folder: Path) -> None:
    with join_server(folder) as first, join_server(folder) as second:
        assert (first.started, second.started) == (True, False)
        assert first.url == second.url
        resp.call_once(users.address(folder), "SET", "k", "v")
        assert resp.call_once(users.address(folder), "GET", "k") == b"v"


def test_the_server_is_private_and_keeps_its_data(folder: Path) -> None:
    def setting(name: str) -> resp.Reply:
        reply = resp.call_once(users.address(folder), "CONFIG", "GET", name)
        assert isinstance(reply, list)
        return reply[1]

    with join_server(folder):
        assert setting("port") == b"0"
        assert (setting("appendonly"), setting("appendfsync"), setting("save")) == (b"yes", b"everysec", b"")
        assert setting("maxmemory-policy") == b"noeviction"
        assert Path(users.address(folder)).stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


def test_without_a_folder_it_is_the_one_of_this_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "share"))
    with join_server() as mine:
        try:
            assert mine.folder.is_relative_to(folder)
            assert mine.folder.parts[-2:] == ("tarry", "embedded")
            assert mine.folder.stat().st_mode & 0o077 == 0
        finally:
            users.clean_up(mine.folder)


def test_two_folders_are_two_servers(folder: Path) -> None:
    with servers.short_folder() as other:
        with join_server(folder) as here, join_server(other, linger_s=0) as there:
            assert here.url != there.url
            assert users.server_pid(folder) != users.server_pid(other)
        users.until_ended(other)
        assert resp.read_state(users.address(folder)) == "ready"


def test_a_folder_is_the_same_under_each_of_its_names(folder: Path) -> None:
    (folder / "data").mkdir(mode=0o700)
    (folder / "link").symlink_to("data")
    try:
        with join_server(folder / "data") as straight, join_server(folder / "link") as crooked:
            assert straight.url == crooked.url
    finally:
        users.clean_up(folder / "data")


def test_a_crashed_user_leaves_the_server_usable(folder: Path) -> None:
    with User(folder) as first, User(folder):
        server = users.server_pid(folder)
        first.kill()
        assert users.server_pid(folder) == server
        with join_server(folder) as third:
            assert not third.started


def test_the_server_ends_after_the_last_user_has_crashed(folder: Path) -> None:
    with User(folder, linger_s=SHORT_S) as only:
        only.kill()
        users.until_ended(folder)


def test_the_server_ends_after_the_last_user_has_left_and_comes_back_with_its_data(folder: Path) -> None:
    with join_server(folder, linger_s=SHORT_S):
        resp.call_once(users.address(folder), "SET", "k", "v")
    users.until_ended(folder)
    with join_server(folder) as again:
        assert again.started
        assert resp.call_once(users.address(folder), "GET", "k") == b"v"


def test_users_who_come_just_when_the_server_ends_find_one_all_the_same(folder: Path) -> None:
    with ExitStack() as stack:
        two = [stack.enter_context(User(folder, linger_s=0, then="come and go", wait=False)) for _ in range(2)]
        assert all(user.told for user in two)
        assert resp.call_once(users.address(folder), "GET", "visits") == b"30"


def test_the_server_waits_for_the_next_user_meanwhile(folder: Path) -> None:
    with join_server(folder):
        server = users.server_pid(folder)
    with join_server(folder) as next_one:
        assert not next_one.started
        assert users.server_pid(folder) == server


def test_a_short_visit_while_it_lingers_restarts_the_minute(folder: Path) -> None:
    linger_s = 0.6
    with join_server(folder, linger_s=linger_s):
        pass
    time.sleep(linger_s / 2)  # the visit must come in the middle: only time brings that about
    with join_server(folder) as visit:
        assert not visit.started
        left = time.monotonic()
    users.until_free(folder / folder_files.SERVER)
    # "never earlier than" holds on the slowest machine; no upper bound is asked for
    assert time.monotonic() - left >= linger_s


def test_a_killed_keeper_is_replaced_by_one_that_adopts_the_server(folder: Path) -> None:
    with join_server(folder, linger_s=SHORT_S):
        server = users.server_pid(folder)
        users.kill(users.keeper_pid(folder), folder / folder_files.KEEPER)
        assert users.server_pid(folder) == server
        with join_server(folder, linger_s=SHORT_S) as second:
            assert not second.started
            assert users.server_pid(folder) == server
            assert users.keeper_pid(folder)
    users.until_ended(folder)


def test_a_server_that_dies_is_started_again_with_its_data(folder: Path) -> None:
    with join_server(folder) as share:
        resp.call_once(users.address(folder), "SET", "k", "v")
        first = users.server_pid(folder)
        os.kill(first, signal.SIGKILL)
        share.ensure_running()
        users.until_ready(folder)
        assert users.server_pid(folder) != first
        assert resp.call_once(users.address(folder), "GET", "k") == b"v"


def test_a_keeper_whose_line_was_cut_does_not_take_the_server_for_dead(folder: Path) -> None:
    with join_server(folder) as share:
        first = users.server_pid(folder)
        resp.call_once(users.address(folder), "CLIENT", "KILL", "TYPE", "normal")
        assert users.server_pid(folder) == first
        users.kill(first, folder / folder_files.SERVER)
        share.ensure_running()
        assert users.server_pid(folder) != first


def test_an_adopted_server_that_dies_is_started_again_too(folder: Path) -> None:
    with join_server(folder):
        users.kill(users.keeper_pid(folder), folder / folder_files.KEEPER)
        with join_server(folder) as share:
            first = users.server_pid(folder)
            users.kill(first, folder / folder_files.SERVER)
            share.ensure_running()
            assert users.server_pid(folder) != first


def test_when_both_are_killed_a_user_brings_them_back(folder: Path) -> None:
    with join_server(folder) as share:
        resp.call_once(users.address(folder), "SET", "k", "v")
        users.kill(users.keeper_pid(folder), folder / folder_files.KEEPER)
        users.kill(users.server_pid(folder), folder / folder_files.SERVER)
        assert Path(users.address(folder)).exists(), "the stale socket is part of the story"
        share.ensure_running()
        assert share.started
        assert resp.call_once(users.address(folder), "GET", "k") == b"v"


def test_a_socket_that_was_swept_away_comes_back(folder: Path, runtime_folder: Path) -> None:
    with join_server(folder) as share:
        resp.call_once(users.address(folder), "SET", "k", "v")
        Path(users.address(folder)).unlink()
        (runtime_folder / "tarry").rmdir()
        share.ensure_running()
        assert resp.call_once(users.address(folder), "GET", "k") == b"v"


def test_users_with_another_environment_find_the_same_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with join_server(folder) as first, servers.short_folder() as elsewhere:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(elsewhere))
        with join_server(folder) as second:
            assert second.url == first.url


def test_a_forked_child_keeps_the_server_after_its_parent(folder: Path) -> None:
    with User(folder, linger_s=SHORT_S, then="fork") as parent:
        parent.process.wait(users.BOUND_S)
        assert users.in_use(folder)
        parent.leave()  # its pipe is the child's: now the child leaves
        users.until_ended(folder)


def test_a_child_that_leaves_does_not_take_the_parent_along(folder: Path) -> None:
    with User(folder, then="child leaves"):
        assert users.in_use(folder)


def test_programs_that_a_user_starts_do_not_hold_the_server(folder: Path) -> None:
    import subprocess

    share = join_server(folder, linger_s=SHORT_S)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False) as other:
        share.close()
        users.until_ended(folder)
        assert other.poll() is None


def test_a_folder_deleted_under_its_users_is_begun_anew(folder: Path) -> None:
    import shutil

    data = folder / "data"
    with join_server(data, linger_s=60) as old:
        first, keeper = users.server_pid(data), users.keeper_pid(data)
        before = old.url
        shutil.rmtree(data)
        try:
            with join_server(data) as new:
                assert new.started
                assert new.url != before
                assert users.server_pid(data) != first
                assert old.ensure_running() == new.url
        finally:
            os.kill(keeper, signal.SIGCONT)  # it ends its server at once: the last user of the deleted folder has left
            assert any(
                resp.read_state(before.removeprefix("unix://")) == "dead" for _ in resp.backoff_delays(users.BOUND_S)
            )
            users.clean_up(data)


def test_closing_twice_is_closing_once(folder: Path) -> None:
    share = join_server(folder)
    share.close()
    share.close()
    with pytest.raises(BadInput, match="Join it again"):
        share.ensure_running()
