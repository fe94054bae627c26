"""Topics and keys of tarry's own are nobody's but the part's: no route, dialect, form or tube reaches them by a name.

Names, routes, pages, actions, operations and commands are found in the code: one more of them is attacked, too.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import msgspec
import pytest
import redis

import servers
from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.errors import BadInput
from tarry.programs import dashboard
from tarry.programs.beanstalk import commands
from tarry.programs.beanstalk import server as beanstalk
from tarry.programs.beanstalk.server import BeanstalkServer, BeanstalkSettings
from tarry.programs.cli.composition import Composition
from tarry.programs.dashboard import sections
from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.sqs.operations import OPERATIONS
from tarry.values import keys
from tarry.values.names import OwnTopic, check_shared_name
from tarry.verbs.guarded import guarded_context
from tarry.verbs.redisson.codecs import CODECS
from tarry.verbs.redisson.delayed import queue_context
from tarry.verbs.redisson.mapcache import map_context
from until import LONGEST_S

pytestmark = pytest.mark.slow
NAMESPACE = "default"
SECRET = "a-secret-of-tarry's-own"


@cache
def own_keys() -> frozenset[bytes]:
    """Each key that a function of the table of keys makes of a namespace alone, and those of tarry's own topics."""
    found = set[bytes]()
    for _, make in inspect.getmembers(keys, inspect.isfunction):
        if list(inspect.signature(make).parameters) == ["namespace"]:
            made = make(NAMESPACE)
            found |= {made} if isinstance(made, bytes) else set(made)
    for own in OwnTopic:
        found |= set(keys.topic_keys(NAMESPACE, own))
    return frozenset(found)


TOPICS = {str(own) for own in OwnTopic}
NAMES = sorted({key.decode() for key in own_keys()} | TOPICS)
FIRST_PARTS = ("jobs", "due", "busy", "holders")


def attacked() -> Iterator[Any]:
    """Of the keys of one topic, which all begin alike, two here, and of those of all workers; each in ``make test-long``."""
    for name in NAMES:
        is_more = name.startswith("tarry:{") and not name.endswith(FIRST_PARTS)
        yield pytest.param(name, marks=pytest.mark.long) if is_more else name


every_name = pytest.mark.parametrize("name", list(attacked()))


def in_turn() -> Iterator[Any]:
    """A name, and how many of them share the requests: of any two keys of the short run one is said by each; in ``make test-long`` both."""
    for name in NAMES:
        if name in TOPICS:
            yield pytest.param(name, 1, id=name)
            continue
        yield pytest.param(name, 1, marks=pytest.mark.long, id=f"{name}-all")
        if not name.startswith("tarry:{") or name.endswith(FIRST_PARTS):
            yield pytest.param(name, 2, id=name)


class Guarded:
    """A service with everything that can be mounted, and what its own keys had at first. Python's own client: ten thousand requests."""

    def __init__(self, running: RunningService, server: redis.Redis) -> None:
        self.running = running
        self.server = server
        self.line = HTTPConnection("127.0.0.1", running.port, timeout=LONGEST_S)
        self.before = self.dumps()

    def dumps(self) -> list[Any]:
        """In one transaction."""
        with self.server.pipeline() as asked:
            for key in sorted(own_keys()):
                if not key.endswith((b":topics", b":numbers")):
                    asked.dump(key)
            return asked.execute()

    def send(self, method: str, path: str, params: Any = (), headers: Any = (), **said: Any) -> int:
        """A request, with a body ``json`` or a form ``data``; of a stream only the head. Nothing of tarry's own is in the answer. A
        key's name is a topic's, too: a pop that waits for its jobs (a dialect's, which says not how long) is left, and answers 0."""
        given = dict(headers)
        body = b""
        if "json" in said:
            body, given["content-type"] = json.dumps(said["json"]).encode(), "application/json"
        elif "data" in said:
            body, given["content-type"] = urlencode(said["data"]).encode(), "application/x-www-form-urlencoded"
        if path == "/pop":
            self.line.close()
            self.line.timeout = 1
        try:
            self.line.request(method, f"{path}?{urlencode(params)}", body, given)
            answer = self.line.getresponse()
            if "event-stream" in answer.headers.get("content-type", ""):
                self.line.close()
            else:
                assert SECRET not in answer.read().decode("utf-8", "replace"), (method, path, params, said)
        except TimeoutError:
            assert path == "/pop"
            return 0
        finally:
            if path == "/pop":
                self.line.close()
                self.line.timeout = 30
        return answer.status

    def check(self) -> None:
        assert self.dumps() == self.before
        listed = self.server.smembers(keys.topics_key(NAMESPACE))
        assert not {name for name in listed if name.decode() in TOPICS}


@pytest.fixture(scope="module")
def whole_service() -> Iterator[Guarded]:
    """On a server of its own. What a test leaves is no part of tarry's own keys, or the test has failed."""
    mounts = Composition(ALL_DIALECTS, True, True, None).mounts(NAMESPACE)
    with (
        servers.server(servers.valkey_binary()) as server,
        serve(
            lambda name: AsyncClient(server.url, namespace=name), ServiceSettings(namespaces=(NAMESPACE,)), mounts
        ) as running,
        redis.Redis.from_url(server.url) as raw,
    ):
        running.call(running.app.show_pages)
        tags = {"QueueName": "orders", "tags": {"secret": SECRET}}
        target = {"x-amz-target": "AmazonSQS.CreateQueue"}
        assert httpx.post(f"{running.url}/sqs", json=tags, headers=target).status_code == 200
        for key in own_keys():
            if not raw.exists(key) and not key.startswith(b"tarry:{default/"):
                if key.endswith((b":heard", b":busy", b":observers")):
                    raw.zadd(key, {SECRET: 1})
                elif key.endswith((b":tokens", b":workers", b":asked", b":holders")):
                    raw.hset(key, "1", SECRET)
        made = Guarded(running, raw)
        yield made
        made.line.close()


@pytest.fixture
def guarded(whole_service: Guarded) -> Iterator[Guarded]:
    whole_service.check()  # what another test has spoiled
    yield whole_service
    whole_service.check()


def test_the_names_are_found() -> None:
    """The test would be green without them."""
    assert {
        " sqs.queues",
        "tarry:default:tokens",
        "tarry:{default}:workers",
        "tarry:{default/ sqs.queues}:jobs",
    } <= set(NAMES)


@pytest.mark.parametrize(("name", "sharing"), list(in_turn()))
def test_no_route_of_the_api_or_of_a_dialect_reaches_them(guarded: Guarded, name: str, sharing: int) -> None:
    requests, place = count(), NAMES.index(name)
    for route in guarded.running.app.routes:
        example = json.loads(msgspec.json.encode(route.example.request))
        for given in range(max(len(route.path_names), 1)):
            path = route.path
            for at, parameter in enumerate(route.path_names):
                value = name if at == given else route.example.path.get(parameter, "orders")
                path = path.replace("{" + parameter + "}", quote(value, safe=""))
            for body in (example, *replaced(example, name)):
                for query in ({}, queries(route.query_model, name)):
                    number = next(requests)
                    if (number + number // 2 + place) % sharing:  # without a query and with one, in turn
                        continue
                    sent = {} if body is None else {"json": unwaiting(body)}
                    status = guarded.send(route.method, path, params=query, **sent)
                    assert status < 500 or status == 501, (route.method, path, query, body)
                    if name in TOPICS and "{topic}" in route.path and route.path_names[given] == "topic":
                        assert status in (400, 422), (route.method, path, query, body)
        guarded.check()


def braced(name: str) -> Iterator[str]:
    """A name with a hash tag that begins and ends at any place of it."""
    plain = name.replace("{", "").replace("}", "")
    yield plain
    for begin in range(len(plain) + 1):
        yield plain[:begin] + "{" + plain[begin:]
        for end in range(begin, len(plain) + 1):
            yield plain[:begin] + "{" + plain[begin:end] + "}" + plain[end:]


def test_braces_make_no_shared_name_of_them() -> None:
    inside = "redisson_lock_token:{orders}", "{orders}:redisson_options"
    for key in (*(key.decode() for key in own_keys()), *inside):
        for name in {key, *braced(key)}:
            with pytest.raises(BadInput, match="belongs to something else"):
                check_shared_name(name, "queue")
    for name in (
        "orders",
        "{orders}",
        "{app}:tarry:orders",
        "app/tarry",
        "{redisson}",
        "tarry",
        "{tarry}",
    ):
        assert check_shared_name(name, "queue") == name


def keys_of_names() -> set[bytes]:
    """Each key and channel that the table makes of a namespace, or of a name in it, but those with random parts."""
    topic = keys.topic_keys(NAMESPACE, "orders")
    partition = keys.partition_keys(NAMESPACE, "orders", 1, 3)
    found = {*own_keys(), keys.holder_channel(NAMESPACE, b"a")}
    for parts in (topic, partition):
        found |= {keys.part_key(parts, part) for part in (*keys.TOPIC_PARTS, *keys.FURTHER_PARTS)}
    lock, of_map = keys.lock_keys(NAMESPACE, "orders"), keys.own_map_keys(NAMESPACE, "orders")
    found |= {*lock, keys.holders_channel(lock), *keys.guarded_keys(NAMESPACE, "orders"), *of_map}
    return found | {keys.lease_prefix(of_map) + b"tea", keys.answer_key(of_map, b"once")}


def keys_of_shared(name: str) -> set[bytes]:
    """Tarry's own keys and channels of the queue, the map and the guarded queue that Java calls so; what is refused has none."""
    found = set[bytes]()
    with suppress(BadInput):
        queue = queue_context.keys_of(name)
        of_map = map_context.context_of(
            name, name, CODECS["json"], CODECS["json"], cluster=False, random=os.urandom
        ).keys
        found |= {*queue, keys.leaving_key(queue), keys.departed_key(queue)}
        found |= {*of_map, keys.answer_key(of_map, b"once")}
    with suppress(BadInput):
        found |= set(guarded_context.keys_of(NAMESPACE, name, "java", cluster=False))
    return {key for key in found if key.startswith(b"tarry:")}


def test_no_shared_name_leads_to_a_key_of_a_topic_a_namespace_or_what_is_in_it() -> None:
    of_names = keys_of_names()
    shared = {"default/orders", "default", "{default/orders}:lease:x", "{default}:holder", "shared", "shared:{x}"}
    for key in of_names:  # what is left of one when another part's suffix, or its own, is taken off
        inside = key.decode().removeprefix("tarry:")
        ends = [at for at in range(1, len(inside) + 1) if at == len(inside) or inside[at] in ":/{}"]
        shared |= {inside[:end].removeprefix("{") for end in ends} | {inside[:end] for end in ends}
    assert len(shared) > 60
    reached = {name: keys_of_shared(name) for name in shared}
    assert all(key.startswith(b"tarry:shared:") and b"{" in key for found in reached.values() for key in found)
    assert all(reached[name] for name in ("default/orders", "default", "{default/orders}:lease:x"))
    assert {name: found & of_names for name, found in reached.items() if found & of_names} == {}
    for namespace in ("shared", "shared:x"):
        for key in (keys.topics_key(namespace), keys.tokens_key(namespace), keys.numbers_key(namespace)):
            assert b"{" not in key
    assert not any(key.startswith(b"tarry:shared:") for key in of_names)


def test_no_route_writes_to_a_key_whose_name_has_other_braces(guarded: Guarded) -> None:
    names = [name for name in braced("tarry:default:tokens") if name.endswith(("tokens", "}"))]
    before = set(guarded.server.keys())
    sent = 0
    for route in guarded.running.app.routes:
        for parameter in {"queue", "map", "lock"} & {*route.path_names}:
            for name in names[:: len(names) // 4]:
                values = {**route.example.path, parameter: name}
                path = route.path
                for one in route.path_names:
                    path = path.replace("{" + one + "}", quote(values.get(one, "orders"), safe=""))
                body = json.loads(msgspec.json.encode(route.example.request))
                given = {} if body is None else {"json": unwaiting(body)}
                query = {"shared": "true"} if parameter == "lock" else {"layout": "java"} if "guarded" in path else {}
                status = guarded.send(route.method, path, params=query, **given)
                assert status in (400, 422) or "guarded" in path, (route.method, path)
                sent += 1
    assert sent > 50
    assert {key for key in set(guarded.server.keys()) - before if not key.startswith(b"tarry:default:")} == set()


def replaced(value: Any, name: str) -> Iterator[Any]:
    """Bodies each with the name in the place of one text."""
    if isinstance(value, str):
        yield name
    for key, held in value.items() if isinstance(value, dict) else ():
        yield from ({**value, key: other} for other in replaced(held, name))
    for at, held in enumerate(value) if isinstance(value, list) else ():
        yield from ([*value[:at], other, *value[at + 1 :]] for other in replaced(held, name))


def unwaiting(body: Any) -> Any:
    return {**body, **({"wait": 0} if "wait" in body else {})} if isinstance(body, dict) else body


def queries(model: Any, name: str) -> dict[str, Any]:
    """A query whose texts are the name, and which says yes to everything."""
    found: dict[str, Any] = {}
    for one in msgspec.structs.fields(model) if model is not None else ():
        text = str(one.type)
        if "bool" in text:
            found[one.encode_name] = "true"
        elif one.encode_name not in ("wait", "limit") and "str" in text and "Literal" not in text:
            found[one.encode_name] = name
    return found


@every_name
def test_no_page_and_no_form_of_the_dashboard_reaches_them(guarded: Guarded, name: str) -> None:
    fields = dict.fromkeys(dashboard_fields(), name)
    for part in (*sections.sections(), *sections.downloads()):
        for shared in ("", "1"):
            assert guarded.send("GET", part.path, params={**fields, "state": "delayed", "shared": shared}) < 500, (
                part.path
            )
    for action in sections.actions():
        for shared in ("", "1"):
            form = {
                **fields,
                "action": action,
                "shared": shared,
                "state": "delayed",
                "sure": "1",
                "back": "/",
                "body": "1",
            }
            assert guarded.send("POST", "/act", data=form) < 500, action
        guarded.check()


@cache
def dashboard_fields() -> set[str]:
    """The fields of queries and forms that its pages read."""
    from pathlib import Path

    folder = Path(dashboard.__file__).parent
    read = re.compile(r"(?:value|get|parameter)\(\"([a-z_]+)\"")
    return {name for file in folder.rglob("*.py") for name in read.findall(file.read_text())}


@every_name
def test_no_operation_of_sqs_reaches_them(guarded: Guarded, name: str) -> None:
    url = f"{guarded.running.url}/sqs/{NAMESPACE}/{name}"
    given = {
        "QueueUrl": url,
        "QueueName": name,
        "MessageBody": "x",
        "Attributes": {},
        "Tags": {"a": "b"},
        "TagKeys": ["a"],
    }
    given |= {"ReceiptHandle": "b3JkZXJzLzEvYQ==", "VisibilityTimeout": 0, "Entries": [{"Id": "a", "MessageBody": "x"}]}
    for operation in OPERATIONS:
        target = {"x-amz-target": f"AmazonSQS.{operation}"}
        status = guarded.send("POST", "/sqs", json=given, headers=target)
        assert status == 400 or operation == "ListQueues", operation


@every_name
def test_no_tube_is_one_of_them(guarded: Guarded, name: str) -> None:
    app = guarded.running.app
    if BeanstalkServer not in app.parts:
        guarded.running.run(beanstalk.start(app, BeanstalkSettings(port=0)))
    listening = app.parts[BeanstalkServer]._listening
    for command in sorted(commands._ARGUMENTS):
        with socket.create_connection(listening.sockets[0].getsockname()) as sock, sock.makefile("rb") as answers:
            lines = (f"{command} {name}", "put 0 0 60 1", "x", "reserve-with-timeout 0", "quit")
            sock.sendall("".join(f"{line}\r\n" for line in lines).encode())  # at once: one of the commands is quit
            assert SECRET.encode() not in answers.read()
