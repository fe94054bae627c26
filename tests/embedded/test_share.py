"""The life of an embedded server, with real processes: who starts it, who finds it, when it ends."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import servers
from embedded import users
from embedded.conftest import StartUser
from tarry.connections.embedded import folder_files, plain_client
from tarry.connections.embedded.shared_server import join_server
from tarry.errors import BadInput

SHORT_S = 0.3


@pytest.mark.slow
def test_ten_processes_at_once_get_one_server(folder: Path, start_user: StartUser) -> None:
    with ExitStack() as stack:
        ten = [stack.enter_context(start_user(folder, wait=False)) for _ in range(10)]
        told = [user.report for user in ten]
        assert len({one["url"] for one in told}) == 1
        assert sum(one["started"] for one in told) == 1
        assert len({users.server_pid(folder) for _ in ten}) == 1


def test_two_users_share_the_same_data(folder: Path) -> None:
    with join_server(folder) as first, join_server(folder) as second:
        assert (first.started, second.started) == (True, False)
        assert first.url == second.url
        plain_client.call_once(users.address(folder), "SET", "k", "v")
        assert plain_client.call_once(users.address(folder), "GET", "k") == b"v"


@pytest.mark.slow
def test_the_server_is_private_and_keeps_its_data(folder: Path) -> None:
    def setting(name: str) -> plain_client.Reply:
        reply = plain_client.call_once(users.address(folder), "CONFIG", "GET", name)
        assert isinstance(reply, list)
        return reply[1]

    with join_server(folder):
        assert setting("port") == b"0"
        assert (setting("appendonly"), setting("appendfsync"), setting("save")) == (b"yes", b"everysec", b"")
        assert setting("maxmemory-policy") == b"noeviction"
        assert Path(users.address(folder)).stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


def test_the_default_folder_belongs_to_this_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "share"))
    with join_server() as mine:
        try:
            assert mine.folder.is_relative_to(folder)
            assert mine.folder.parts[-2:] == ("tarry", "embedded")
            assert mine.folder.stat().st_mode & 0o077 == 0
        finally:
            users.clean_up(mine.folder)


def test_two_folders_have_two_servers(folder: Path) -> None:
    with servers.short_folder() as other:
        with join_server(folder) as here, join_server(other, linger_s=0) as there:
            assert here.url != there.url
            assert users.server_pid(folder) != users.server_pid(other)
        users.until_ended(other)
        assert plain_client.read_state(users.address(folder)) == "ready"


def test_a_symlink_to_a_folder_finds_the_same_server(folder: Path) -> None:
    (folder / "data").mkdir(mode=0o700)
    (folder / "link").symlink_to("data")
    try:
        with join_server(folder / "data") as straight, join_server(folder / "link") as crooked:
            assert straight.url == crooked.url
    finally:
        users.clean_up(folder / "data")


def test_a_crashed_user_leaves_the_server_usable(folder: Path, start_user: StartUser) -> None:
    with start_user(folder) as first, start_user(folder):
        server = users.server_pid(folder)
        first.kill()
        assert users.server_pid(folder) == server
        with join_server(folder) as third:
            assert not third.started


@pytest.mark.slow
def test_the_server_ends_after_its_last_user_crashes(folder: Path, start_user: StartUser) -> None:
    with start_user(folder, linger_s=SHORT_S) as only:
        only.kill()
        users.until_ended(folder)


def test_the_server_ends_after_its_last_user_and_restarts_with_its_data(folder: Path) -> None:
    with join_server(folder, linger_s=SHORT_S):
        plain_client.call_once(users.address(folder), "SET", "k", "v")
    users.until_ended(folder)
    with join_server(folder) as again:
        assert again.started
        assert plain_client.call_once(users.address(folder), "GET", "k") == b"v"


@pytest.mark.slow
def test_users_that_arrive_as_the_server_ends_still_get_one(folder: Path, start_user: StartUser) -> None:
    with ExitStack() as stack:
        two = [stack.enter_context(start_user(folder, linger_s=0, then="come and go", wait=False)) for _ in range(2)]
        assert all(user.report for user in two)
        assert plain_client.call_once(users.address(folder), "GET", "visits") == b"30"


def test_the_server_keeps_running_for_the_next_user(folder: Path) -> None:
    with join_server(folder):
        server = users.server_pid(folder)
    with join_server(folder) as next_one:
        assert not next_one.started
        assert users.server_pid(folder) == server


@pytest.mark.slow
def test_a_short_visit_restarts_the_linger_time(folder: Path) -> None:
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


@pytest.mark.slow
def test_a_new_supervisor_adopts_the_server_of_a_killed_one(folder: Path) -> None:
    with join_server(folder, linger_s=SHORT_S):
        server = users.server_pid(folder)
        users.kill(users.supervisor_pid(folder), folder / folder_files.SUPERVISOR)
        assert users.server_pid(folder) == server
        with join_server(folder, linger_s=SHORT_S) as second:
            assert not second.started
            assert users.server_pid(folder) == server
            assert users.supervisor_pid(folder)
    users.until_ended(folder)


def test_a_killed_server_is_restarted_with_its_data(folder: Path) -> None:
    with join_server(folder) as share:
        plain_client.call_once(users.address(folder), "SET", "k", "v")
        first = users.server_pid(folder)
        os.kill(first, signal.SIGKILL)
        share.ensure_running()
        users.until_ready(folder)
        assert users.server_pid(folder) != first
        assert plain_client.call_once(users.address(folder), "GET", "k") == b"v"


def test_a_supervisor_with_a_cut_connection_does_not_restart_the_server(folder: Path) -> None:
    with join_server(folder) as share:
        first = users.server_pid(folder)
        plain_client.call_once(users.address(folder), "CLIENT", "KILL", "TYPE", "normal")
        assert users.server_pid(folder) == first
        users.kill(first, folder / folder_files.SERVER)
        share.ensure_running()
        assert users.server_pid(folder) != first


@pytest.mark.slow
def test_a_killed_adopted_server_is_restarted_too(folder: Path) -> None:
    with join_server(folder):
        users.kill(users.supervisor_pid(folder), folder / folder_files.SUPERVISOR)
        with join_server(folder) as share:
            first = users.server_pid(folder)
            users.kill(first, folder / folder_files.SERVER)
            share.ensure_running()
            assert users.server_pid(folder) != first


@pytest.mark.slow
def test_a_user_restarts_supervisor_and_server_when_both_are_killed(folder: Path) -> None:
    with join_server(folder) as share:
        plain_client.call_once(users.address(folder), "SET", "k", "v")
        users.kill(users.supervisor_pid(folder), folder / folder_files.SUPERVISOR)
        users.kill(users.server_pid(folder), folder / folder_files.SERVER)
        assert Path(users.address(folder)).exists(), "the stale socket is part of the story"
        share.ensure_running()
        assert share.started
        assert plain_client.call_once(users.address(folder), "GET", "k") == b"v"


def test_a_removed_socket_is_recreated(folder: Path, runtime_folder: Path) -> None:
    with join_server(folder) as share:
        plain_client.call_once(users.address(folder), "SET", "k", "v")
        Path(users.address(folder)).unlink()
        (runtime_folder / "tarry").rmdir()
        share.ensure_running()
        assert plain_client.call_once(users.address(folder), "GET", "k") == b"v"


def test_users_with_another_environment_find_the_same_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with join_server(folder) as first, servers.short_folder() as elsewhere:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(elsewhere))
        with join_server(folder) as second:
            assert second.url == first.url


@pytest.mark.slow
def test_a_forked_child_keeps_the_server_after_its_parent(folder: Path, start_user: StartUser) -> None:
    with start_user(folder, linger_s=SHORT_S, then="fork") as parent:
        parent.process.wait(users.BOUND_S)
        assert users.in_use(folder)
        parent.leave()  # its pipe is the child's: now the child leaves
        users.until_ended(folder)


@pytest.mark.slow
def test_an_exiting_child_does_not_release_the_server_of_its_parent(folder: Path, start_user: StartUser) -> None:
    with start_user(folder, then="child leaves"):
        assert users.in_use(folder)


@pytest.mark.slow
def test_subprocesses_of_a_user_do_not_keep_the_server_running(folder: Path) -> None:
    import subprocess

    share = join_server(folder, linger_s=SHORT_S)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, close_fds=False) as other:
        share.close()
        users.until_ended(folder)
        assert other.poll() is None


def test_a_deleted_folder_gets_a_new_server(folder: Path) -> None:
    import shutil

    data = folder / "data"
    with join_server(data, linger_s=60) as old:
        first, supervisor = users.server_pid(data), users.supervisor_pid(data)
        before = old.url
        shutil.rmtree(data)
        try:
            with join_server(data) as new:
                assert new.started
                assert new.url != before
                assert users.server_pid(data) != first
                assert old.ensure_running() == new.url
        finally:
            with suppress(
                ProcessLookupError
            ):  # it ends its server at once: the last user of the deleted folder has left
                os.kill(supervisor, signal.SIGCONT)
            assert any(
                plain_client.read_state(before.removeprefix("unix://")) == "dead"
                for _ in plain_client.backoff_delays(users.BOUND_S)
            )
            users.clean_up(data)


def test_closing_twice_closes_once(folder: Path) -> None:
    share = join_server(folder)
    share.close()
    share.close()
    with pytest.raises(BadInput, match="Join it again"):
        share.ensure_running()
