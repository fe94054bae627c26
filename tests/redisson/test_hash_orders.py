"""Maps and sets have the bytes that Java gives them, Python's own and those that were read.

What Java says is recorded in ``data/hash_orders.txt``, and asked anew of a JDK where there is one (``java/TrackingState.java``).
"""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import random
import shutil
import struct
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.java_hash import reason_to_differ
from tarry.verbs.redisson.values import (
    Byte,
    Char,
    Float,
    HashMap,
    HashSet,
    LinkedHashMap,
    Long,
    Short,
    java_type,
    plain,
)
from until import LONGEST_S
from walked import cases

HERE = Path(__file__).parent
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""It lives for a second: to compile what it does more than once is most of its time."""
RECORDED = HERE / "data" / "hash_orders.txt"
SPELLED = {
    "Integer": "i", "Long": "l", "Short": "h", "Byte": "b", "String": "s", "Character": "c", "Boolean": "z", "Double": "d", "Float": "f",
}  # fmt: skip
BINARY = ["kryo5", "json"]


# ── the oracle ───────────────────────────────────────────────────────────────────────────────────────────────────────


def word_of(key: Any) -> str:
    kind = java_type(key)
    if kind == "String":
        told: Any = b64encode(key.encode("utf-16-le", "surrogatepass")).decode()
    elif kind == "Character":
        told = ord(key)
    elif kind == "Double":
        (told,) = struct.unpack("<q", struct.pack("<d", key))
    elif kind == "Float":
        (told,) = struct.unpack("<i", struct.pack("<f", key))
    else:
        told = int(key)
    return f"{SPELLED[kind]}:{told}"


def key_of(word: str) -> Any:
    kind, said = word[0], word[2:]
    if kind == "s":
        return b64decode(said).decode("utf-16-le", "surrogatepass")
    if kind == "c":
        return Char(chr(int(said)))
    if kind in "df":
        return (
            struct.unpack("<d", struct.pack("<q", int(said)))[0]
            if kind == "d"
            else Float(struct.unpack("<f", struct.pack("<i", int(said)))[0])
        )
    return {"i": int, "l": Long, "h": Short, "b": Byte, "z": lambda text: text == "1"}[kind](
        int(said) if kind != "z" else said
    )


def questions(seed: int, n: int) -> Iterator[tuple[str, list[Any]]]:
    """How Java makes it, and of what; all keys are different in Python, too."""
    rng = random.Random(seed)
    pools = [
        lambda: rng.randrange(-40, 40),
        lambda: rng.randrange(-(2**31), 2**31),
        lambda: 16 * rng.randrange(40),
        lambda: 64 * rng.randrange(40),
        lambda: Long(rng.randrange(-(2**63), 2**63)),
        lambda: "".join(rng.choice("abcdeé😀\ud83d") for _ in range(rng.randrange(6))),
        lambda: "".join(rng.choice(("Aa", "BB")) for _ in range(5)),
        lambda: (
            rng.choice(("orderId", "userId", "amount", "id", "name", "k", "v", "z", "price", "sku", "at", "lines"))
            + str(rng.randrange(3))
        ),
        lambda: rng.choice(
            [
                True,
                False,
                1.5,
                -0.5,
                rng.random() * 1e9,
                Float(rng.random()),
                Char(chr(rng.randrange(0xD000))),
                Short(rng.randrange(500)),
                Byte(rng.randrange(100)),
            ]
        ),
    ]
    ways = ("put", "put", "add", "copied-map", "copied-set", "roomy", "larger-once")
    for _ in range(n):
        size, some = (
            rng.choice((2, 3, 5, 8, 11, 12, 13, 20, 24, 25, 60)),
            rng.sample(pools, rng.choice((1, 1, 2, 3))),
        )
        keys = list(dict.fromkeys(rng.choice(some)() for _ in range(size)))
        yield rng.choice(ways), keys


def line_of(how: str, keys: list[Any]) -> str:
    return " ".join([how, *map(word_of, keys)])


Answers = dict[str, str]


def ask_java(lines: list[str]) -> Answers:
    """Asks a real Java. It compiles its program each time, which takes longer than to answer."""
    if shutil.which("javac") is None:
        pytest.skip("needs openjdk-17-jdk-headless (apt install openjdk-17-jdk-headless)")
    words = [*JAVA, str(HERE / "java" / "Orders.java")]
    told = subprocess.run(
        words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=LONGEST_S
    )
    return dict(zip(lines, told.stdout.splitlines(), strict=True))


@pytest.fixture(scope="module")
def by_chance() -> list[str]:
    """Other questions in each run."""
    return [line_of(*one) for one in questions(random.randrange(2**32), 300)]


@pytest.fixture(scope="module")
def one_by_one() -> list[str]:
    return [line_of("put", keys) for _, keys in questions(7, 300)]


@pytest.fixture(scope="module")
def java(by_chance: list[str], one_by_one: list[str]) -> Answers:
    """All that the tests ask, at once."""
    return ask_java([*by_chance, *one_by_one, *(asked for asked, _ in recorded())])


def recorded() -> list[tuple[str, str]]:
    lines = RECORDED.read_text().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


# ── what it says holds ───────────────────────────────────────────────────────────────────────────────────────────────


def holds(asked: str, answered: str) -> bool:
    """Checks one; answers whether a value of Python's own has the same bytes. Where it has not, that is known."""
    how, *words = asked.split(" ")
    given, order = [key_of(word) for word in words], [key_of(word) for word in answered.split(" ")]
    came = HashSet.of(order) if how in ("add", "copied-set") else HashMap.of((key, 1) for key in order)
    own: Any = set(given) if isinstance(came, HashSet) else dict.fromkeys(given, 1)
    assert came == own
    for name in (
        ("kryo5", "json") if isinstance(came, HashSet) or all(type(key) is str for key in given) else ("kryo5",)
    ):
        codec = codec_for(name)
        foreign = codec.encode(came)
        assert isinstance(came, HashSet) or list(codec.decode(foreign)) == list(came)
        again = codec.decode(foreign)
        assert codec.encode(again) == foreign, "what came goes back as the same bytes"
        assert codec.encode([{"in": again}]) == codec.encode([{"in": came}])
        assert reason_to_differ(again) is None
        if how in ("roomy", "larger-once"):
            continue
        assert codec.encode(own) == foreign or reason_to_differ(own) is not None, (
            asked,
            answered,
            reason_to_differ(own),
        )
    return codec_for("kryo5").encode(own) == codec_for("kryo5").encode(came)


def test_recorded_java_hash_orders_hold() -> None:
    told = recorded()
    same = {asked: holds(asked, answered) for asked, answered in told}
    assert (len(told), sum(same.values())) == (400, 176)
    put = [asked for asked in same if asked.startswith("put ")]
    assert len(put) > 100
    assert all(
        same[asked] or "tree" in (reason_to_differ(dict.fromkeys(map(key_of, asked.split(" ")[1:]))) or "")
        for asked in put
    )


@pytest.mark.slow
def test_hash_orders_of_the_installed_jdk_hold(java: Answers, by_chance: list[str]) -> None:
    for asked in by_chance:
        holds(asked, java[asked])
    assert {asked: java[asked] for asked, _ in recorded()} == dict(recorded())


@pytest.mark.long
def test_many_hash_orders_of_the_installed_jdk_hold() -> None:
    for asked, answered in ask_java([line_of(*one) for one in questions(random.randrange(2**32), 30_000)]).items():
        holds(asked, answered)


@pytest.mark.slow
def test_a_doubt_is_reported_only_where_the_order_is_uncertain(java: Answers, one_by_one: list[str]) -> None:
    """A dict that was put together one by one is always found, but for trees."""
    for asked in one_by_one:
        keys, order = (list(map(key_of, text.split(" "))) for text in (asked.removeprefix("put "), java[asked]))
        own = dict.fromkeys(keys, 1)
        if "tree" not in (reason_to_differ(own) or ""):
            assert codec_for("kryo5").encode(own) == codec_for("kryo5").encode(HashMap.of((key, 1) for key in order)), (
                asked
            )


# ── the cases that were found live ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "foreign",
    [
        b'["java.util.HashSet",[17,1]]',
        b'["java.util.HashSet",["BB","Aa"]]',
        b'["java.util.ArrayList",[["java.util.HashSet",[33,17,1]],{"@class":"java.util.HashMap","s":["java.util.HashSet",[17,1]]}]]',
        b'{"@class":"java.util.HashMap","BB":1,"Aa":2}',
        b'{"@class":"java.util.HashMap","z":1,"a":2}',
        b'{"@class":"java.util.LinkedHashMap","userId":1,"orderId":2}',
        b'{"@class":"com.shop.Order","ids":["java.util.HashSet",[17,1]]}',
    ],
)
def test_values_read_from_java_are_encoded_identically(foreign: bytes) -> None:
    codec = codec_for("json")
    assert codec.encode(codec.decode(foreign)) == foreign


@pytest.mark.parametrize(
    ("literal", "order"),
    [
        ({"k": "v", "z": 2}, ["z", "k"]),
        ({"orderId": 7, "userId": 8, "amount": 9}, None),
        ({"a": 1, "b": 2, "c": 3}, ["a", "b", "c"]),
    ],
)
def test_a_literal_has_the_same_bytes_in_any_order(literal: dict[str, Any], order: list[str] | None) -> None:
    for name in BINARY:
        codec = codec_for(name)
        made = {codec.encode(dict(pairs)) for pairs in itertools.permutations(literal.items())}
        assert len(made) == 1
        assert order is None or list(codec.decode(made.pop())) == order
    linked = codec_for("json").encode(LinkedHashMap(literal))
    assert list(json.loads(linked))[1:] == list(literal)


def test_decoded_sets_and_maps_are_ordinary_sets_and_dicts() -> None:
    codec = codec_for("json")
    found = codec.decode(
        b'["java.util.ArrayList",[["java.util.HashSet",[17,1]],{"@class":"java.util.HashMap","BB":1,"Aa":2}]]'
    )
    assert found == [{1, 17}, {"Aa": 2, "BB": 1}]
    assert found[0] == frozenset((1, 17))
    for back in (copy.deepcopy(found), pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert back == found
        assert codec.encode(back) == codec.encode(found)
    assert [type(one) for one in plain(found)] == [set, dict]


def test_a_decoded_and_changed_value_is_encoded_as_changed() -> None:
    codec = codec_for("json")
    members = codec.decode(b'["java.util.HashSet",[17,1]]')
    members.discard(1)
    assert json.loads(codec.encode(members))[1] == [17]
    members |= {33, 2}
    assert json.loads(codec.encode(members))[1] == [17, 33, 2]
    members.discard(17)
    members.add(Long(17))
    assert ["java.lang.Long", 17] in json.loads(codec.encode(members))[1]
    assert json.loads(codec.encode(members | {1}))[1][0] in (1, 33)
    assert json.loads(codec.encode(members.copy())) == json.loads(codec.encode(members))
    entries = codec.decode(b'{"@class":"java.util.HashMap","z":1,"a":2}')
    del entries["z"]
    entries["k"] = 3
    assert list(json.loads(codec.encode(entries)))[1:] == ["a", "k"]
    entries["a"] = {"z": 1, "k": 2}
    assert codec.encode(entries) == codec.encode({"k": 3, "a": {"k": 2, "z": 1}})


@cases(
    ("value", "why"),
    [
        ({1, 17}, "share a bucket"),
        ({1, 2}, None),
        (dict.fromkeys(range(11)), None),
        (dict.fromkeys(range(5, 17)), "32 buckets, not 16, if Java copied it"),
        (set(range(24)), None),
        (set(range(10, 34)), "64 buckets, not 32"),
        (dict.fromkeys(range(13)), None),
        ({1: 1, 17: 1}, "share a bucket"),
        ({2: 1, 5: 1}, "4 buckets, not 16"),
        ({2, 5}, None),
        (LinkedHashMap.fromkeys(range(12)), None),
        ([{"a": {"b": {1, 17}}}], "share a bucket"),
        (dict.fromkeys(range(0, 64 * 20, 64)), "tree"),
        (dict.fromkeys([*range(0, 64 * 12, 64), *range(1, 60)]), "tree"),
        ({b"a": 1, b"b": 2}, "another hash"),
        (7, None),
    ],
    ids=repr,
)
def test_values_with_an_uncertain_java_order_are_known(value: Any, why: str | None) -> None:
    assert (reason_to_differ(value) is None) if why is None else (why in (reason_to_differ(value) or ""))


if __name__ == "__main__":
    asked = [line_of(*one) for one in questions(1, 400)]
    words = ["java", str(HERE / "java" / "Orders.java")]
    told = subprocess.run(words, input="\n".join(asked) + "\n", capture_output=True, text=True, check=True).stdout
    RECORDED.write_text("".join(f"{one}\n{other}\n" for one, other in zip(asked, told.splitlines(), strict=True)))
