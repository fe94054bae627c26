"""An attacker with the user of a role can do only what the role may."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

import servers
import tarry
from connections.roles import SHOP, rules
from tarry.connections.embedded import plain_client
from tarry.values.keys import tokens_key, topic_keys, topics_key, worker_keys
from tarry.verbs import acl

SECRET = "hush"
FOREIGN: list[tuple[Any, ...]] = [
    ("SET", "passwords", SECRET),
    ("HSET", "tarry", "f", SECRET),
    ("HSET", "shipping:stock", "f", SECRET),
    ("HSET", tokens_key("other"), "f", SECRET),
    ("SADD", topics_key("other"), SECRET),
    ("HSET", worker_keys("other").workers, "f", SECRET),
    ("HSET", topic_keys("other", "orders").jobs, "f", SECRET),
    ("ZADD", topic_keys("other", SHOP).due, "1", SECRET),
    ("SET", "redisson_lock_token:{other:shop}", SECRET),
    ("RPUSH", "redisson_delay_queue:other:{shop}", SECRET),
    ("ZADD", "redisson__timeout__set:{other}", "1", SECRET),
    ("HSET", "tarry:shared:{other}:poison", "f", SECRET),
]
"""What belongs to others."""
TOKENS = [("HSET", tokens_key(SHOP), "f", SECRET)]
"""Of one's own namespace: only the service's."""
WHOLE_SERVER = """
CONFIG GET requirepass|CONFIG GET masterauth|CONFIG GET save|CONFIG GET *|CONFIG SET maxmemory 1|CONFIG REWRITE|CONFIG RESETSTAT
ACL LIST|ACL USERS|ACL GETUSER default|ACL SETUSER mallory on nopass +@all ~*|ACL DELUSER root|ACL LOG|ACL SAVE|ACL LOAD
AUTH default guess|CLIENT LIST|CLIENT KILL TYPE normal|CLIENT PAUSE 1|CLIENT TRACKING ON BCAST|CLIENT TRACKING ON|CLIENT NO-EVICT ON
SCAN 0|SCAN 0 MATCH *|KEYS *|RANDOMKEY|DBSIZE|SELECT 1|SWAPDB 0 1|FLUSHALL|FLUSHDB|MONITOR|SYNC|PSYNC ? -1|REPLICAOF localhost 1
DEBUG SLEEP 0|DEBUG OBJECT passwords|MIGRATE localhost 1 passwords 0 1|DUMP passwords|OBJECT ENCODING passwords|COPY passwords shop
RENAME passwords shop|SORT shop BY nosort GET passwords|MOVE passwords 1|RESTORE shop 0 x|TOUCH passwords|EXPIRETIME passwords
FUNCTION LIST|FUNCTION DUMP|FUNCTION FLUSH|FCALL f 0|MODULE LIST|MODULE LOAD /x.so|SCRIPT FLUSH|SCRIPT KILL|SHUTDOWN NOSAVE|SAVE|BGSAVE
BGREWRITEAOF|FAILOVER|SLOWLOG GET|LATENCY DOCTOR|MEMORY DOCTOR|MEMORY STATS|MEMORY USAGE passwords|CLUSTER RESET|CLUSTER NODES|COMMAND
SUBSCRIBE other|PSUBSCRIBE *|PUBLISH other x|PUBSUB CHANNELS|SUBSCRIBE __keyspace@0__:passwords|SUBSCRIBE redisson_lock__channel:{other}
XADD shop * f v|XREAD STREAMS passwords 0|BITOP NOT shop passwords|GEOADD shop 1 1 x|PFADD shop x|LCS passwords shop
"""
NO_KEYS = (
    "auth client|id client|setname client|unblock cluster|slots eval evalsha exec info multi ping publish pubsub|numsub spublish ssubscribe "
    "subscribe sunsubscribe time unsubscribe unwatch wait"
)
"""Of what a role may do: what names no key."""
REFUSALS = ("no permission", "the user executing", "wrong number of arg", "unknown", "not allowed", "wrongpass")
"""How a server says no before it does anything."""


@pytest.fixture(
    scope="module",
    params=[
        "valkey",
        pytest.param("redis6", marks=pytest.mark.otherserver),
        pytest.param("redis7", marks=[pytest.mark.otherserver, pytest.mark.long]),  # between the oldest and the newest
        pytest.param("redis8", marks=pytest.mark.otherserver),
    ],
)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """The path of a server with passwords, and its administrator."""
    folder = tmp_path_factory.mktemp("guarded")
    with servers.server(servers.binary_of(request.param, folder)) as running:
        path = running.url.removeprefix("unix://")
        running.ask("ACL", "SETUSER", "root", "on", ">root", "~*", "&*", "+@all")
        version = (6, 2) if request.param == "redis6" else ()
        for role in acl.ROLES:
            running.ask("ACL", "SETUSER", role, "reset", *rules(role, version=version))
        with redis.Redis(unix_socket_path=path, username="root", password="root") as root:
            root.config_set("masterauth", "alsosecret")
            root.config_set("requirepass", "topsecret")
            with tarry.Client(f"unix://root:root@{path}", namespace=SHOP) as client:
                client.topic("orders").add("tea")
                client.lock("shop").acquire()
            for words in (*FOREIGN, *TOKENS):
                root.execute_command(*words)
            yield path, root


class Intruder:
    """A connection that sends any command, as raw words. A test ends at the first that is not refused: some answers never end."""

    def __init__(self, path: str, role: str) -> None:
        self._line = plain_client.RespConnection.connect(path)
        assert self._line.call("AUTH", role, "secret") == b"OK"

    def says(self, *words: str | bytes) -> tuple[bool, str]:
        """Whether it was refused, and what was answered."""
        try:
            return False, repr(self._line.call(*[os.fsdecode(word) for word in words]))
        except plain_client.ErrorReply as fault:
            return any(said in str(fault).lower() for said in REFUSALS), str(fault)

    def close(self) -> None:
        self._line.close()


@pytest.fixture
def intruder(guarded: tuple[str, Any], role: str) -> Iterator[Intruder]:
    with closing(Intruder(guarded[0], role)) as made:
        yield made


def contents(root: Any, *, but: tuple[bytes, ...] = ()) -> dict[bytes, bytes]:
    return {key: root.dump(key) for key in sorted(root.scan_iter(count=1000)) if key not in but}


@pytest.mark.parametrize("role", acl.ROLES)
def test_no_role_can_reach_server_settings_users_or_other_keys(guarded: tuple[str, Any], intruder: Intruder) -> None:
    _, root = guarded
    before, users = contents(root), root.acl_list()
    for words in (line.split() for line in WHOLE_SERVER.replace("\n", "|").split("|") if line):
        for said in (words, ["EVAL", "return redis.call(unpack(ARGV))", "0", *words]):
            refused, answer = intruder.says(*said)
            assert refused, f"{said} answered {answer}"
            assert not any(secret in answer for secret in (SECRET, "topsecret", "alsosecret")), said
    assert contents(root) == before
    assert root.acl_list() == users


@pytest.mark.slow
@pytest.mark.parametrize("role", acl.ROLES)
def test_no_role_can_reach_keys_of_others(guarded: tuple[str, Any], intruder: Intruder, role: str) -> None:
    """Not by any command that the role may run, with any number of arguments; in a script neither."""
    _, root = guarded
    before = contents(root)
    keys = [words[1] for words in (*FOREIGN, *(TOKENS if role != "all" else []))]
    for name in sorted(acl.commands(role) - set(NO_KEYS.split())):  # type: ignore[arg-type]
        command = name.upper().split("|")
        for key in keys:
            said = [command + [key, "1", "0", "0", "0", "0"][: count + 1] for count in range(5)]
            if name in ("blpop", "del", "exists", "mset", "unlink"):
                said.append(
                    [*command, "tarry:{shop/x}:due", *["1"][: name == "mset"], key, *["1"][: name in ("blpop", "mset")]]
                )
            for words in said:
                refused, answer = intruder.says(*words)
                assert refused, f"{words} answered {answer}"
                assert SECRET not in answer
            refused, answer = intruder.says("EVAL", "return redis.call(unpack(ARGV))", "0", *command, key)
            assert refused, f"{command} {key!r} in a script answered {answer}"
    for key in keys:
        for script in ("return redis.call('GET', KEYS[1])", "return redis.call('HGETALL', KEYS[1])", "return 1"):
            refused, answer = intruder.says("EVAL", script, "1", key)
            assert refused or answer == "1", f"{script} of {key!r} answered {answer}"
    assert contents(root) == before


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_no_role_can_create_an_api_token(guarded: tuple[str, Any], intruder: Intruder) -> None:
    _, root = guarded
    table = tokens_key(SHOP)
    before = root.hgetall(table)
    for script in (
        "return redis.call('HSET', ARGV[1], 'mine', '1 {}')",
        "return redis.pcall('HINCRBY', ARGV[1], 'version', 1)",
        "return redis.call('DEL', ARGV[1])",
        "return redis.call('HGETALL', ARGV[1])",
    ):
        refused, answer = intruder.says("EVAL", script, "0", table)
        assert refused, answer
    assert root.hgetall(table) == before


@pytest.mark.slow
@pytest.mark.parametrize("role", acl.ROLES)
def test_each_role_can_still_do_its_own_work(guarded: tuple[str, Any], role: str) -> None:
    """Else nothing above would say anything."""
    path, _ = guarded
    with tarry.Client(f"unix://{role}:secret@{path}", namespace=SHOP) as client:
        assert client.topic("orders").add(role, id=role, if_exists="keep").is_new
        assert role in [job.id for job in client.topic("orders").list()]
        assert client.topics() == ["orders"]
