"""Map caches that are shared with Java: ``tarry map-cache …``. No command runs an evictor; ``evict`` evicts once."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.programs.cli import arguments, output
from tarry.programs.cli.commands import Redisson, group, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.messages import renamed_parameters
from tarry.programs.cli.queue_commands import CODECS, CodecName
from tarry.programs.cli.session import CommandSession, dumps

if TYPE_CHECKING:
    from tarry.redisson import MapCache, MapStats

MAPS = group(
    "map-cache",
    "Map caches that Java applications with Redisson share: the same in every namespace, but for --backend native.",
)
BACKENDS = ("redisson", "redisson-native", "native")
MapName = Annotated[str, typer.Argument(metavar="MAP", help="The map, as Java names it.", show_default=False)]
MapNames = Annotated[
    list[str], typer.Argument(metavar="MAP...", help="The maps, as Java names them.", show_default=False)
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Plain text; JSON with --json-key.", show_default=False)]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="Plain text; JSON with --json-key.")]
KeyCodec = Annotated[
    str | None,
    typer.Option(
        "--key-codec",
        metavar="CODEC",
        help="The codec of the keys. Default: that of the values.",
        autocompletion=complete_words(*CODECS),
    ),
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="BACKEND",
        help="redisson; redisson-native: RMapCacheNative; or native: a map of the namespace, without Java.",
        autocompletion=complete_words(*BACKENDS),
    ),
]
JsonKey = Annotated[bool, typer.Option("--json-key", help="Keys are JSON, numbers for instance.")]


def _map(
    session: CommandSession,
    name: str,
    codec: str | None,
    key_codec: str | None,
    backend: str,
    redisson: str | None = None,
) -> MapCache[Any, Any]:
    kind: Any = backend
    if key_codec is not None:
        with renamed_parameters(codec="key_codec"):
            session.client.map_cache(name, redisson=redisson, codec=key_codec, backend=kind, policy=None)  # checks it
    return session.client.map_cache(
        name, redisson=redisson, codec=codec, key_codec=key_codec, backend=kind, policy=None
    )


def _key(text: str, json_key: bool, codec: str | None) -> Any:
    key = arguments.parse_body(text, raw=not json_key, what="key")
    return key.encode() if codec == "bytes" and isinstance(key, str) else key


@verb(within=MAPS)
def put(
    session: CommandSession,
    map: MapName,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON; plain text with --raw.", show_default=False)],
    ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time to live, such as 10m.", show_default=False)
    ] = None,
    max_idle: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time to live after its last use.", show_default=False)
    ] = None,
    keep_ttl: Annotated[bool, typer.Option("--keep-ttl", help="An existing entry keeps its time to live.")] = False,
    if_absent: Annotated[bool, typer.Option("--if-absent", help="Only if there is no entry.")] = False,
    redisson: Redisson = None,
    codec: CodecName = None,
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    raw: Annotated[bool, typer.Option("--raw", help="The value is plain text, not JSON.")] = False,
    json_key: JsonKey = False,
) -> None:
    """Puts an entry, and prints the old value."""
    cache = _map(session, map, codec, key_codec, backend, redisson)
    given = arguments.parse_body(value, raw=raw, what="value")
    if codec == "bytes" and isinstance(given, str):
        given = given.encode()
    map_key = _key(key, json_key, key_codec or codec)
    if if_absent:
        was = cache.put_if_absent(map_key, given, ttl=ttl, max_idle=max_idle)
    else:
        was = cache.put(map_key, given, ttl=ttl, max_idle=max_idle, keep_ttl=keep_ttl)
    session.print_answer(
        {"key": key, "was": _data(was)}, f"{key}  {'there was none' if was is None else 'was ' + _text(was)}"
    )


@verb(within=MAPS)
def get(
    session: CommandSession,
    map: MapName,
    keys: Keys,
    redisson: Redisson = None,
    codec: CodecName = None,
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    json_key: JsonKey = False,
) -> None:
    """Shows entries and how long they still live. It restarts their idle time."""
    cache = _map(session, map, codec, key_codec, backend, redisson)
    for text in keys:
        key = _key(text, json_key, key_codec or codec)
        found = cache.get(key)
        left = cache.remaining_ttl(key) if found is not None else None
        ttl = None if left is None or left == timedelta.max else left
        data = {"key": text, **output.element_data(found), "ttl_ms": output.ms(ttl)} if found is not None else None
        session.print_answer(data, f"{text}  {'none' if found is None else _text(found)}{_ttl_text(ttl)}")


@verb(within=MAPS)
def delete(
    session: CommandSession,
    map: MapName,
    keys: Keys,
    redisson: Redisson = None,
    codec: CodecName = None,
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    json_key: JsonKey = False,
) -> None:
    """Deletes entries."""
    cache = _map(session, map, codec, key_codec, backend, redisson)
    gone = cache.fast_remove(*[_key(text, json_key, key_codec or codec) for text in keys])
    session.print_answer({"map": map, "deleted": gone}, f"{map}  {gone} deleted")


@verb(name="list", within=MAPS)
def _list(
    session: CommandSession,
    map: MapName,
    redisson: Redisson = None,
    codec: CodecName = None,
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most this many.")] = 100,
) -> None:
    """Lists live entries, in no order. It does not restart their idle time."""
    cache = _map(session, map, codec, key_codec, backend, redisson)
    items = iter(cache.as_dict().items())
    for key, value in islice(items, limit):
        session.print_answer({"key": _data(key), **output.element_data(value)}, f"{_text(key)}  {_text(value)}")
    if next(items, None) is not None:
        session.print_note(output.more_note(limit, cache.size(), "entry"))


@verb(within=MAPS)
def stats(session: CommandSession, maps: MapNames, backend: Backend = "redisson") -> None:
    """Shows how many entries live, how many have expired and wait for the evictor, and when the next expires."""
    for name in maps:
        cache = _map(session, name, "bytes", None, backend)
        if backend != "redisson":
            count = cache.size()
            session.print_answer({"map": name, "size": count}, f"{name}  size {count}")
        else:
            found = cache.stats()
            session.print_answer(stats_data(found), _as_text(found))


def stats_data(stats: MapStats) -> dict[str, Any]:
    """A map's counts as JSON data."""
    from tarry.wire.redisson.map_endpoints import MAP_STATS

    return {"map": stats.name, **output.as_data(MAP_STATS, stats)}


def _as_text(stats: MapStats) -> str:
    data = [stats.name, f"size {stats.size}", f"expired {stats.expired}", f"evictors {stats.evictors}"]
    if stats.next_expiry is not None:
        data.append(f"next in {output.span_text(stats.next_expiry - stats.now)}")
    if stats.max_size is not None:
        data.append(f"at most {stats.max_size} ({stats.mode})")
    return "  ".join(data)


@verb(within=MAPS)
def evict(session: CommandSession, maps: MapNames) -> None:
    """Removes expired entries, with an event for each."""
    for name in maps:
        gone = _map(session, name, "bytes", None, "redisson").evict()
        session.print_answer({"map": name, "evicted": gone}, f"{name}  {gone} evicted")


@verb(within=MAPS)
def clear(session: CommandSession, map: MapName, backend: Backend = "redisson") -> None:
    """Removes all entries, without events."""
    there = _map(session, map, "bytes", None, backend).clear()
    session.print_answer({"map": map, "cleared": there}, f"{map}  {'cleared' if there else 'was empty'}")


def _data(value: Any) -> Any:
    return None if value is None else next(iter(output.element_data(value).values()))


def _text(value: Any) -> str:
    return dumps(_data(value))


def _ttl_text(left: timedelta | None) -> str:
    return "" if left is None else f"  for {output.span_text(left)}"
