"""Map caches that are shared with Java: ``tarry map-cache …``. No call of it keeps a map; ``evict`` does so once."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.programs.cli import answers, reading
from tarry.programs.cli.completing import words
from tarry.programs.cli.queues import CODECS, CodecName
from tarry.programs.cli.register import group, verb
from tarry.programs.cli.session import Session, dumps
from tarry.programs.cli.wording import called

if TYPE_CHECKING:
    from tarry.clients.blocking.mapcache import MapCache
    from tarry.verbs.mapcache.models import MapStats

MAPS = group("map-cache", "Map caches that Java applications with Redisson share.")
BACKENDS = ("redisson", "native")
MapName = Annotated[str, typer.Argument(metavar="MAP", help="The map, as Java names it.", show_default=False)]
MapNames = Annotated[
    list[str], typer.Argument(metavar="MAP...", help="The maps, as Java names them.", show_default=False)
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Plain text; JSON with --json-key.", show_default=False)]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="Plain text; JSON with --json-key.")]
KeyCodec = Annotated[
    str | None,
    typer.Option("--key-codec", help="Of the keys; else that of the values.", autocompletion=words(*CODECS)),
]
Backend = Annotated[
    str, typer.Option("--backend", help="redisson, or native: RMapCacheNative.", autocompletion=words(*BACKENDS))
]
JsonKey = Annotated[bool, typer.Option("--json-key", help="Keys are JSON: numbers, for instance.")]


def _map(session: Session, name: str, codec: str, key_codec: str | None, backend: str) -> MapCache[Any, Any]:
    from tarry.verbs.redisson.codecs import codec_for

    kind: Any = backend
    if key_codec is not None:
        with called(codec="key_codec"):
            codec_for(key_codec)
    return session.client.map_cache(name, codec=codec, key_codec=key_codec, backend=kind, policy=None)


def _key(text: str, json_key: bool, codec: str) -> Any:
    key = reading.body(text, raw=not json_key, what="key")
    return key.encode() if codec == "bytes" and isinstance(key, str) else key


@verb(within=MAPS)
def put(
    session: Session,
    map: MapName,
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON; plain text with --raw.", show_default=False)],
    ttl: Annotated[str | None, typer.Option(help="Lives so long, such as 10m.", show_default=False)] = None,
    max_idle: Annotated[str | None, typer.Option(help="Lives so long after its last use.", show_default=False)] = None,
    keep_ttl: Annotated[bool, typer.Option("--keep-ttl", help="An entry that is there keeps its time.")] = False,
    if_absent: Annotated[bool, typer.Option("--if-absent", help="Only where there is none.")] = False,
    codec: CodecName = "kryo5",
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    raw: Annotated[bool, typer.Option("--raw", help="The value is plain text, no JSON.")] = False,
    json_key: JsonKey = False,
) -> None:
    """Puts an entry, and answers what was there."""
    cache = _map(session, map, codec, key_codec, backend)
    given = reading.body(value, raw=raw, what="value")
    if codec == "bytes" and isinstance(given, str):
        given = given.encode()
    place = _key(key, json_key, key_codec or codec)
    if if_absent:
        was = cache.put_if_absent(place, given, ttl=ttl, max_idle=max_idle)
    else:
        was = cache.put(place, given, ttl=ttl, max_idle=max_idle, keep_ttl=keep_ttl)
    session.tell({"key": key, "was": _data(was)}, f"{key}  {'there was none' if was is None else 'was ' + _text(was)}")


@verb(within=MAPS)
def get(
    session: Session,
    map: MapName,
    keys: Keys,
    codec: CodecName = "kryo5",
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    json_key: JsonKey = False,
) -> None:
    """Shows entries and how long they live yet. It is a use of them."""
    cache = _map(session, map, codec, key_codec, backend)
    for text in keys:
        key = _key(text, json_key, key_codec or codec)
        found = cache.get(key)
        left = cache.remaining_ttl(key) if found is not None else None
        ttl = None if left is None or left == timedelta.max else left
        said = {"key": text, **answers.value(found), "ttl_ms": answers.ms(ttl)} if found is not None else None
        session.tell(said, f"{text}  {'none' if found is None else _text(found)}{_lives(ttl)}")


@verb(within=MAPS)
def remove(
    session: Session,
    map: MapName,
    keys: Keys,
    codec: CodecName = "kryo5",
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    json_key: JsonKey = False,
) -> None:
    """Takes entries out."""
    cache = _map(session, map, codec, key_codec, backend)
    gone = cache.fast_remove(*[_key(text, json_key, key_codec or codec) for text in keys])
    session.tell({"map": map, "removed": gone}, f"{map}  {gone} removed")


@verb(name="list", within=MAPS)
def _list(
    session: Session,
    map: MapName,
    codec: CodecName = "kryo5",
    key_codec: KeyCodec = None,
    backend: Backend = "redisson",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
) -> None:
    """Shows entries, in no order; none that has expired. It is no use of them."""
    items = _map(session, map, codec, key_codec, backend).items()
    for key, value in islice(items, limit):
        session.tell({"key": _data(key), **answers.value(value)}, f"{_text(key)}  {_text(value)}")
    if next(items, None) is not None:
        session.note(f"there are more; --limit {limit * 10} shows them")


@verb(within=MAPS)
def size(session: Session, maps: MapNames, backend: Backend = "redisson") -> None:
    """Shows how many entries live, how many wait for the evictor, and what is next."""
    for name in maps:
        cache = _map(session, name, "bytes", None, backend)
        if backend == "native":
            count = cache.size()
            session.tell({"map": name, "size": count}, f"{name}  size {count}")
        else:
            now = cache.stats()
            session.tell(stats(now), _in_words(now))


def stats(now: MapStats) -> dict[str, Any]:
    """A map's counts as JSON data."""
    return {
        "map": now.name,
        "now": answers.rfc3339(now.now),
        "size": now.size,
        "expired": now.expired,
        "next_expiry": answers.rfc3339(now.next_expiry),
        "max_size": now.max_size,
        "mode": now.mode,
        "listened": now.listened,
        "keepers": now.keepers,
    }


def _in_words(now: MapStats) -> str:
    said = [now.name, f"size {now.size}", f"expired {now.expired}", f"keepers {now.keepers}"]
    if now.next_expiry is not None:
        said.append(f"next in {answers.late(now.next_expiry - now.now)}")
    if now.max_size is not None:
        said.append(f"at most {now.max_size} ({now.mode})")
    return "  ".join(said)


@verb(within=MAPS)
def evict(session: Session, maps: MapNames) -> None:
    """Takes out what has expired, with an event for each."""
    for name in maps:
        gone = _map(session, name, "bytes", None, "redisson").evict()
        session.tell({"map": name, "evicted": gone}, f"{name}  {gone} evicted")


@verb(within=MAPS)
def clear(session: Session, map: MapName) -> None:
    """Takes everything out, without events."""
    there = _map(session, map, "bytes", None, "redisson").clear()
    session.tell({"map": map, "cleared": there}, f"{map}  {'cleared' if there else 'was empty'}")


def _data(value: Any) -> Any:
    return None if value is None else next(iter(answers.value(value).values()))


def _text(value: Any) -> str:
    return dumps(_data(value))


def _lives(left: timedelta | None) -> str:
    return "" if left is None else f"  for {answers.late(left)}"
