"""The table of the vectors of maps: those with Redisson's layout, and those whose fields expire by themselves (`native_`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from vectors.calls import Case, Step
from vectors.table import HOUR, NOW, SECOND, raw, step

NOW_MS = NOW // 1000
NEVER = 92233720368547758
TAG = "redisson__expiretag"
EVENTS = ("created", "updated", "removed", "expired", "hints")
OURS, JAVAS = "tarry:1", "java:1"


def packed(value: str, idle: float = 0) -> str:
    return struct.pack("<dQ", idle, len(value)).decode("latin-1") + value


def entry(key: str, value: str, *, idle: float = 0, ttl_ends: int | None = None, idle_ends: int | None = None) -> list[Step]:  # fmt: skip
    """With deadlines in ms from now."""
    steps = [raw("HSET", "entries", key, packed(value, idle))]
    if ttl_ends is not None:
        steps.append(raw("ZADD", "timeouts", NOW_MS + ttl_ends, key))
    if idle_ends is not None:
        steps.append(raw("ZADD", "idles", NOW_MS + idle_ends, key))
    return steps


def leases(*keys: str) -> tuple[str, ...]:
    return tuple(f"lease:{key}" for key in keys)


def call(script: str, *args: Any, more: tuple[str, ...] = (), at: int = 0) -> Step:
    return step(f"redisson/mapcache/{script}", *args, at=at)._replace(more=more)


def put(*entries: tuple[str, str], ttl: int = 0, idle: int = 0, keep: int = 0, condition: str = "always", expected: str = "", with_old: int = 0, replay: int = 0, sharded: int = 0, at: int = 0) -> Step:  # fmt: skip
    words = (word for one in entries for word in one)
    more = leases(*(key for key, _ in entries))
    return call("put", sharded, ttl, idle, keep, condition, expected, with_old, replay, *words, more=more, at=at)


def remove(*keys: str, condition: str = "any", expected: str = "", with_old: int = 1, replay: int = 0, sharded: int = 0) -> Step:  # fmt: skip
    return call("remove", sharded, condition, expected, with_old, replay, *keys, more=leases(*keys))


def expire_entry(*keys: str, ttl: int = 0, idle: int = 0, if_not_set: int = 0, replay: int = 0, at: int = 0) -> Step:
    return call("expire_entry", 0, ttl, idle, if_not_set, replay, *keys, at=at)


def add(delta: Any, key: str = "k", replay: int = 0) -> Step:
    return call("add", 0, key, delta, replay)


def lease(token: str = OURS) -> Step:
    return call("lease", 0, token, 30_000, "k")


def evict(most: int = 100, waiter: str = "", keeps_running: int = 1, at: int = 0) -> Step:
    return call("evict", 0, most, waiter, keeps_running, at=at)


def options(size: int, mode: str = "LRU") -> Step:
    return raw("HSET", "options", "max-size", size, "mode", mode)


HEARD = raw("HSET", "options", "has-listeners", 1)
USED = raw("ZADD", "accesses", 1, "k", 2, "a", 3, "b", NEVER, TAG)
THREE = [*entry("a", "va"), *entry("k", "v"), *entry("b", "vb")]
LONG_AGO = [*entry("a", "va", ttl_ends=-9), *entry("b", "vb", idle=5000, idle_ends=-9)]
LEASED = raw("SET", "lease:k", OURS, "EX", 30)
MAPS: dict[str, list[Step]] = {
    "an empty one": [],
    "an entry": entry("k", "v"),
    "an entry with listeners and a lease": [*entry("k", "v"), HEARD, LEASED],
    "an entry with a time to live": entry("k", "v", ttl_ends=1),
    "an entry whose time is over": [HEARD, *entry("k", "v", ttl_ends=0), *entry("a", "va")],
    "an entry with an idle time": entry("k", "v", idle=5000, ttl_ends=9000, idle_ends=1),
    "an entry with an idle time of 1 ms, and no value": entry("k", "", idle=1, idle_ends=1),
    "an entry that was idle for too long": [HEARD, *entry("k", "v", idle=5000, idle_ends=0)],
    "an idle time without its deadline": entry("k", "v", idle=5000),
    "an idle deadline without its time": entry("k", "v", idle_ends=-1),
    "an entry with an endless idle time": entry("k", "v", idle=float("inf"), idle_ends=-1),
    "an entry that is not packed": [raw("HSET", "entries", "k", "plain", "a", "sixteen bytes and more")],
    "deadlines of lost entries": [raw("ZADD", "timeouts", NOW_MS - 5, "k"), raw("ZADD", "idles", NOW_MS - 5, "a")],
    "a map with a maximum size": [HEARD, options(2), USED, *THREE],
    "a map that counts uses": [options(9, "LFU"), USED, *THREE],
    "a map that is full, with expired entries": [HEARD, options(1), *THREE, *LONG_AGO],
    "a map with an evictor": [*entry("k", "v", idle=5000, idle_ends=9), raw("ZADD", "evictors", NOW + 9 * SECOND, "e")],
    "a map that expires": [*entry("k", "v"), raw("EXPIRE", "entries", 60), raw("ZADD", "timeouts", NEVER, TAG), raw("EXPIRE", "timeouts", 60)],
}  # fmt: skip
"""What a call meets."""
ON_MAPS: dict[str, Step] = {
    "an entry is put": put(("k", "new")),
    "an entry is put with both times": put(("k", "new"), ttl=SECOND + 1, idle=2000, with_old=1),
    "an entry is put, and keeps its times": put(("k", "new"), keep=1),
    "an entry is put if it is absent": put(("k", "new"), ttl=SECOND, condition="absent"),
    "an entry is read": call("get_entry", "get", "k"),
    "an entry is read for a while": call("get_entry", "ttl", "k"),
    "an entry is removed": remove("k"),
    "an entry gets times": expire_entry("k", ttl=SECOND + 1, idle=2000),
    "an entry loses its times": expire_entry("k"),
    "an entry gets a time if it has none": expire_entry("k", ttl=HOUR, if_not_set=1),
    "the time to live is read": call("ttl", "k"),
    "a page is read": call("scan", 0, 100),
    "numbers are read": call("stats", 100),
    "an entry is read, or leased": lease(),
    "entries are evicted": evict(),
}  # fmt: skip


def cases() -> list[Case]:
    return [
        *(Case(f"{name}: {state}", before, made, EVENTS) for name, made in ON_MAPS.items() for state, before in MAPS.items()),
        *cases_of_writes(),
        *cases_of_numbers(),
        *cases_of_keys(),
        *cases_of_whole_maps(),
        *cases_of_evictors(),
        *cases_of_native_maps(),
    ]  # fmt: skip


def cases_of_writes() -> list[Case]:
    before = [*entry("k", "v", ttl_ends=5000), HEARD]
    absent = put(("k", "v"), condition="absent")
    conditions = {"present": "", "absent": "", "equal": "v", "leased": OURS}
    return [
        *(Case(f"an entry is put if it is {condition}: there", [*before, LEASED], put(("k", "new"), condition=condition, expected=expected), EVENTS) for condition, expected in conditions.items()),
        *(Case(f"an entry is put if it is {condition}: not there", [], put(("k", "new"), condition=condition, expected=expected), EVENTS) for condition, expected in conditions.items()),
        Case("an entry is put if it is another", before, put(("k", "new"), condition="equal", expected="w"), EVENTS),
        Case("an entry is put that another caller loads", [LEASED], put(("k", "new"), condition="leased", expected=JAVAS), EVENTS),
        Case("two entries are put, and one is leased", [*before, raw("SET", "lease:a", OURS)], put(("k", "new"), ("a", "va"), with_old=1), EVENTS),
        Case("no entry is put", [], put()),
        Case("an entry is put for the least times", [raw("ZADD", "evictors", NOW + SECOND, "e")], put(("k", "v"), ttl=1), EVENTS),
        Case("an entry is put for the least idle time", [raw("ZADD", "evictors", NOW + SECOND, "e")], put(("k", "v"), idle=1, at=1), EVENTS),
        Case("an entry gets the least time", [*before, raw("ZADD", "evictors", NOW + SECOND, "e")], expire_entry("k", ttl=1), EVENTS),
        Case("an entry gets the least idle time", [*before, raw("ZADD", "evictors", NOW + SECOND, "e")], expire_entry("k", idle=1, at=1), EVENTS),
        Case("an entry is put on sharded channels", [*before, LEASED], put(("k", "new"), sharded=1), EVENTS),
        Case("a put is repeated", [absent], put(("k", "v"), condition="absent", replay=1), EVENTS),
        Case("a put is repeated that was not done", [], put(("k", "v"), condition="absent", replay=1), EVENTS),
        Case("two keys are removed, one of them twice", THREE, remove("k", "a", "k"), EVENTS),
        Case("an entry is removed, and a lease on it", [*before, LEASED], remove("k", with_old=0), EVENTS),
        Case("an entry is removed if it is equal", [*before, LEASED], remove("k", condition="equal", expected="v"), EVENTS),
        Case("an entry is not removed, as it is another", [*before, LEASED], remove("k", condition="equal", expected="w"), EVENTS),
        Case("an entry is removed on sharded channels", [*before, LEASED], remove("k", sharded=1), EVENTS),
        Case("a removal is repeated", [*before, remove("k")], remove("k", replay=1), EVENTS),
        Case("no entry is removed", [], remove()),
        Case("two entries get a time", THREE, expire_entry("a", "z", "b", ttl=SECOND)),
        Case("an entry gets a time, repeated", [*THREE, expire_entry("k", ttl=SECOND, if_not_set=1)], expire_entry("k", ttl=SECOND, if_not_set=1, replay=1)),
        Case("an entry is put just before the evictor looks", [raw("ZADD", "evictors", NOW + 6 * SECOND + 1, "e")], put(("k", "v"), ttl=6 * SECOND), EVENTS),
        Case("an entry is put that ends when the evictor looks", [raw("ZADD", "evictors", NOW + 6 * SECOND, "e")], put(("k", "v"), ttl=6 * SECOND), EVENTS),
        Case("a new entry is the least used", [options(3, "LFU"), USED, *THREE], put(("A", "v")), EVENTS),
        Case("an entry is put into a full map whose uses are not known", [options(1), raw("ZADD", "accesses", NEVER, TAG), *THREE], put(("k", "v")), EVENTS),
        Case("an entry is put that lasts longer than the evictor rests", [raw("ZADD", "evictors", NOW + 9 * SECOND, "e")], put(("k", "v"), ttl=6 * SECOND + 1), EVENTS),
    ]  # fmt: skip


def cases_of_numbers() -> list[Case]:
    def number(text: str) -> list[Step]:
        return entry("k", text, idle=2000, ttl_ends=5000, idle_ends=1000)

    most = "9223372036854775807"
    return [
        Case("a number is added to nothing", [HEARD], add(-3), EVENTS),
        Case("a number is added", [*number("41"), HEARD, raw("SET", "lease", OURS)], add(1), EVENTS),
        Case("a number is added to an entry whose time is over", entry("k", "41", ttl_ends=-1), add(1), EVENTS),
        Case("a broken number is added", number("41"), add("0.5"), EVENTS),
        Case("a number is added to a broken one", number("0.5"), add(41), EVENTS),
        Case("a number is added to a text", number("text"), add(1), EVENTS),
        Case("a sum does not fit", number(most), add(1), EVENTS),
        Case("a number is added, repeated", [add(1)], add(1, replay=1), EVENTS),
        Case("a number is added, repeated and not done", [], add(1, replay=1), EVENTS),
        Case("a number is added to a map that is full", MAPS["a map with a maximum size"], add(1, key="z"), EVENTS),
    ]


def cases_of_keys() -> list[Case]:
    """Reads of several keys, and leases of one."""
    old = [*THREE, *entry("c", "vc", ttl_ends=-1), *entry("d", "vd", idle=5, idle_ends=-1)]
    idle = entry("k", "v", idle=5000, idle_ends=5000)
    return [
        Case("several entries are read", old, call("get_entry", "all", *"kcz")),
        Case("several entries are looked for", [*idle, options(9)], call("get_entry", "has", *"kcz")),
        Case("no entry is read", [], call("get_entry", "all")),
        Case("several times to live are read", [*THREE, *entry("c", "vc", ttl_ends=7)], call("ttl", *"kcz")),
        Case("more are over than are counted", old, call("stats", 1)),
        Case("as many are over as are counted", [*old, options(7, "LFU"), HEARD, raw("ZADD", "evictors", NOW - SECOND, "e", NOW - SECOND - 1, "f")], call("stats", 2)),
        Case("an entry that is over by both deadlines is counted once", entry("k", "v", idle=5, ttl_ends=0, idle_ends=-1), call("stats", 9)),
        Case("no entry is over between two milliseconds", [*entry("k", "v", ttl_ends=1), *entry("a", "va", idle=9, idle_ends=1)], call("stats", 9, at=1)),
        Case("the first deadline is an idle one", [*entry("k", "v", idle=5, ttl_ends=9, idle_ends=7), raw("ZADD", "idles", NEVER, TAG)], call("stats", 9)),
        Case("a lease is taken again by its holder", [raw("SET", "lease", OURS, "EX", 30)], lease()),
        Case("another caller has the lease", [raw("SET", "lease", "tarry:2", "EX", 20)], lease()),
        Case("a Java application has the lease", [raw("SET", "lease", JAVAS, "EX", 20)], lease()),
        Case("a lease is given back", [raw("SET", "lease", OURS)], call("unlease", 0, OURS, "k"), EVENTS),
        Case("a lease is given back on sharded channels", [raw("SET", "lease", OURS)], call("unlease", 1, OURS, "k"), EVENTS),
        Case("a lease is given back that another caller has", [raw("SET", "lease", OURS)], call("unlease", 0, JAVAS, "k"), EVENTS),
        Case("a lease is given back that is over", [], call("unlease", 0, OURS, "k"), EVENTS),
    ]  # fmt: skip


def cases_of_whole_maps() -> list[Case]:
    expiring = [raw("EXPIRE", part, 60) for part in ("entries", "options", "idles")]
    maps: dict[str, list[Step]] = {
        "an empty one": [],
        "a map": entry("k", "v", ttl_ends=9),
        "a map with a maximum size": [*entry("k", "v"), options(1)],
        "a map that expires": [*entry("k", "v"), options(1), raw("ZADD", "idles", NEVER, TAG, 5, "k"), *expiring],
        "a map that expires, without a maximum size": [*entry("k", "v"), HEARD, *expiring],
    }
    sizes = {"no": [], "this": [options(5)], "another": [options(6)], "another kind of": [options(5, "LFU")], "an old": [raw("HSET", "options", "max-size", 5)]}  # fmt: skip
    over = [raw("HSET", "options", "max-size", 1), *THREE]
    names = [f"e{n}" for n in range(210)]
    many = [options(1), raw("HSET", "entries", *(word for name in names for word in (name, "x"))), raw("ZADD", "accesses", *(word for name in names for word in (1, name)))]  # fmt: skip
    return [
        *(
            Case(f"a map {what}: {state}", before, call("expire", after, if_not_set))
            for state, before in maps.items()
            for what, after, if_not_set in (
                ("gets an expiry", 30_000, 0),
                ("gets an expiry if it has none", 30_000, 1),
                ("loses its expiry", "", 0),
            )
        ),
        *(Case(f"a maximum size is set: {what} one is there", before, call("limit", 5, "LRU", 0)) for what, before in sizes.items()),
        *(Case(f"a maximum size is set if there is none: {what} one is there", before, call("limit", 5, "LRU", 1)) for what, before in sizes.items()),
        *(Case(f"a map is trimmed: {state}", MAPS[state], call("trim", 0, 0, 100), EVENTS) for state in MAPS if state in ("an empty one", "an entry", "a map that counts uses") or "is full" in state or "maximum" in state),
        Case("no more are removed than one script may", many, call("trim", 0, "done", 100)),
        Case("a map is trimmed after the last page", [*over, USED, HEARD], call("trim", 0, "done", 100), EVENTS),
        Case("a map is trimmed, and has lost entries", [*over, raw("ZADD", "accesses", 0, "y", 0, "z", 1, "k", 2, "b", 3, "a")], call("trim", 0, "done", 100), EVENTS),
    ]  # fmt: skip


def cases_of_evictors() -> list[Case]:
    soon = entry("k", "v", ttl_ends=1000)
    seat, deputy = raw("ZADD", "evictors", NOW + 9, "e"), raw("ZADD", "evictors", NOW + 9, "~f")
    full = [*THREE, options(3), raw("ZADD", "accesses", 1, "k", 2, "a", 3, "b")]
    return [
        Case("an evictor takes its seat", [], evict(waiter="w")),
        Case("an evictor becomes a deputy of one that looks late", [raw("ZADD", "evictors", NOW + 12 * SECOND, "e")], evict(waiter="w")),
        Case("an evictor becomes a deputy of one that is nearly late", [raw("ZADD", "evictors", NOW - SECOND, "e")], evict(waiter="w")),
        Case("a map is as large as it may be", full, evict()),
        Case("an entry is over in the next millisecond", entry("k", "v", ttl_ends=1), evict(at=1)),
        Case("an evictor takes its seat, and an entry expires soon", soon, evict(waiter="w")),
        Case("an evictor becomes a deputy", [seat], evict(waiter="w")),
        Case("an evictor gets no seat", [seat, deputy], evict(waiter="w")),
        Case("an evictor leaves", [raw("ZADD", "evictors", NOW + 9, "w")], evict(waiter="w", keeps_running=0)),
        Case("one entry of each deadline is evicted", [*LONG_AGO, *entry("k", "v", ttl_ends=0), HEARD], evict(most=1), EVENTS),
        Case("a map is too large", [*THREE, options(2), USED], evict()),
        Case("a map has entries that were never used", [*THREE, options(9)], evict()),
        Case("an empty map is swept", [], call("sweep", 0, 9, 5)),
        Case("one entry is swept", [*LONG_AGO, *entry("k", "v", ttl_ends=-1)], call("sweep", 0, 1, 5), EVENTS),
        Case("entries are swept on sharded channels", LONG_AGO, call("sweep", 1, 9, 5), EVENTS),
        Case("another process sweeps", [raw("SET", "latch", 1), *LONG_AGO], call("sweep", 0, 9, 5), EVENTS),
    ]  # fmt: skip


def field(key: str, value: str, seconds: int = 0) -> list[Step]:
    return [raw("HSET", "entries", key, value)] + [raw("HEXPIRE", "entries", seconds, "FIELDS", 1, key)] * (seconds > 0)


def native_put(*entries: tuple[str, str], ttl: int = 0, keep: int = 0, condition: str = "always", expected: str = "", with_old: int = 0, replay: int = 0, sharded: int = 0) -> Step:  # fmt: skip
    words = (word for one in entries for word in one)
    more = leases(*(key for key, _ in entries))
    return call("native_put", sharded, ttl, keep, condition, expected, with_old, replay, *words, more=more)


def native_remove(*keys: str, condition: str = "any", expected: str = "", replay: int = 0, with_old: int = 1, sharded: int = 0) -> Step:  # fmt: skip
    return call("native_remove", sharded, condition, expected, with_old, replay, *keys, more=leases(*keys))


def native_expire(*keys: str, ttl: int = 9000, if_not_set: int = 0, replay: int = 0) -> Step:
    return call("native_expire_entry", ttl, if_not_set, replay, *keys)


def cases_of_native_maps() -> list[Case]:
    maps: dict[str, Sequence[Step]] = {
        "an empty one": [],
        "a field": field("k", "v"),
        "a field that expires": field("k", "v", 60),
        "a field with a lease": [*field("k", "v", 60), LEASED],
        "a lease": [LEASED],
    }
    calls: dict[str, Step] = {
        "put": native_put(("k", "new")),
        "put with an expiry": native_put(("k", "new"), ttl=5000, with_old=1),
        "put, and keeps its expiry": native_put(("k", "new"), ttl=5000, keep=1),
        "put if it is absent": native_put(("k", "new"), ttl=5000, condition="absent"),
        "put if it is present": native_put(("k", "new"), condition="present"),
        "put if it is equal": native_put(("k", "new"), condition="equal", expected="v"),
        "put if it is another": native_put(("k", "new"), condition="equal", expected="w"),
        "put if it is leased": native_put(("k", "new"), condition="leased", expected=OURS),
        "removed": native_remove("k"),
        "removed if it is equal": native_remove("k", condition="equal", expected="v", with_old=0),
        "removed if it is another": native_remove("k", condition="equal", expected="w"),
        "given an expiry": native_expire("k"),
        "given an expiry if it has none": native_expire("k", if_not_set=1),
        "freed of its expiry": native_expire("k", ttl=0),
        "leased": call("native_lease", OURS, 30_000, "k"),
    }
    hints = ("hints",)
    most, held = "9223372036854775807", raw("SET", "lease", OURS, "EX", 30)

    def native_add(delta: Any, replay: int = 0, sharded: int = 0) -> Step:
        return call("native_add", sharded, "k", delta, replay)

    absent = native_put(("k", "v"), condition="absent")
    return [
        *(Case(f"a field is {name}: {state}", before, made, hints) for name, made in calls.items() for state, before in maps.items()),
        *(Case(f"a field is {name}: the map is a text", [raw("SET", "entries", "x")], calls[name]) for name in ("put", "removed", "given an expiry", "leased")),
        Case("two fields are put", [*field("k", "v", 60), LEASED, raw("SET", "lease:a", OURS)], native_put(("k", "new"), ("a", "va"), ttl=5000, sharded=1), hints),
        Case("no field is put", [], native_put()),
        Case("a put is repeated", [absent], native_put(("k", "v"), condition="absent", replay=1)),
        Case("a put is repeated that was not done", [], native_put(("k", "v"), condition="absent", replay=1)),
        Case("two fields are removed", [*field("k", "v"), *field("a", "va"), LEASED], native_remove("a", "k", sharded=1), hints),
        Case("a removal is repeated", [*field("k", "v"), native_remove("k")], native_remove("k", replay=1)),
        Case("two fields are given an expiry", [*field("k", "v", 60), *field("a", "va")], native_expire("a", "z", "k", if_not_set=1)),
        Case("an expiry is repeated", [*field("k", "v"), native_expire("k", if_not_set=1)], native_expire("k", if_not_set=1, replay=1)),
        Case("a lease is taken again by its holder", [held], call("native_lease", OURS, 30_000, "k")),
        Case("another caller has the lease", [held], call("native_lease", JAVAS, 30_000, "k")),
        Case("a number is added to nothing", [], native_add(-3), hints),
        Case("a number is added", [*field("k", "41", 60), held], native_add(1), hints),
        Case("a number is added on sharded channels", [*field("k", "41"), held], native_add(1, sharded=1), hints),
        Case("a broken number is added", field("k", "41"), native_add("0.5"), hints),
        Case("a number is added to a broken one", field("k", "0.5"), native_add(41), hints),
        Case("a number is added to a text", field("k", "text"), native_add(1), hints),
        Case("a sum does not fit", field("k", most), native_add(1), hints),
        Case("a number is added, repeated", [native_add(1)], native_add(1, replay=1), hints),
    ]  # fmt: skip
