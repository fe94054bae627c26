"""One word, the version of Redisson in Java, tells codec and format."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from tarry.errors import BadInput
from tarry.verbs.redisson.codecs import CODECS
from tarry.verbs.redisson.elements import Format
from tarry.verbs.redisson.versions import redisson_version
from walked import cases

NEW, OLD = Format.NEW, Format.OLD
CLIENTS = pytest.mark.parametrize("make", [tarry.Client, tarry.AsyncClient, tarry.HTTPClient, tarry.AsyncHTTPClient])


@pytest.fixture(autouse=True)
def nobody_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARRY_REDISSON")


@cases(
    ("version", "codec", "format"),
    [
        ("2.15.2", "json", OLD),
        ("3.8.1", "json", OLD),
        ("3.9", "json", OLD),
        ("3.9.1", "json", OLD),
        ("3.10", None, OLD),
        ("3.12.5", None, OLD),
        ("3.13.0", "river", OLD),
        ("3.15.1", "river", OLD),
        ("3.16", "river", OLD),
        ("3.18.1", "river", OLD),
        ("3.19.0", "kryo5", OLD),
        ("3.20", "kryo5", OLD),
        ("3.21.0", "kryo5", OLD),
        ("3.21.1", "kryo5", NEW),
        ("3.22", "kryo5", NEW),
        ("3.52.0", "kryo5", NEW),
        ("4", "kryo5", NEW),
        ("4.7.0", "kryo5", NEW),
    ],
)
def test_a_version_tells_codec_and_format(version: str, codec: str | None, format: Format) -> None:
    known = redisson_version(version)
    assert (known.text, known.codec, known.format) == (version, codec, format)


def test_a_version_between_two_formats_is_refused_with_the_two_to_choose_from() -> None:
    with pytest.raises(BadInput, match=r"^redisson: .3\.21.*\"3\.21\.0\" \(dLc0\) or \"3\.21\.1\" \(Bc0Lc0\)"):
        redisson_version("3.21")
    with pytest.raises(BadInput, match="the complete version"):
        redisson_version("3")


@pytest.mark.parametrize("word", ["", "fst", "3.x", "river", "v3.15.1", "3.15.1.2", 3.15, None])
def test_what_is_no_version_is_refused(word: Any) -> None:
    with pytest.raises(BadInput, match=r"^redisson: .*it is the version of Redisson in the Java application"):
        redisson_version(word)


@CLIENTS
def test_a_version_is_given_to_a_client_a_process_or_a_handle(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(client: Any, **options: Any) -> tuple[Any, ...]:
        delayed = client.delayed_queue("q", **options).verbs.context
        ready = client.blocking_queue("q", **options).verbs.context
        kept = client.map_cache("m", policy=None, **options).verbs.context
        assert delayed.codec is ready.codec is kept.codec is kept.key_codec
        return delayed.codec, delayed.format

    river, kryo5 = CODECS["river"], CODECS["kryo5"]
    assert told(make(redisson="3.15.1")) == (river, OLD)
    assert told(make(redisson="3.15.1"), redisson="3.20") == (kryo5, OLD)
    assert told(make(), redisson="4.7.0") == (kryo5, NEW)
    assert told(make(redisson="3.15.1"), codec="json") == (CODECS["json"], OLD)
    assert make(redisson="3.15.1").delayed_queue("q", format="tarry").verbs.context.format is NEW
    monkeypatch.setenv("TARRY_REDISSON", "3.15.1")
    assert told(make()) == (river, OLD)
    assert told(make(redisson="3.22")) == (kryo5, NEW)


@CLIENTS
def test_an_invalid_version_is_refused_when_the_client_is_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"^redisson: "):
        make(redisson="3.21")
    monkeypatch.setenv("TARRY_REDISSON", "3.21")
    with pytest.raises(BadInput, match=r"^TARRY_REDISSON: "):
        make()


def test_a_default_codec_that_tarry_does_not_speak_is_refused_with_what_to_write() -> None:
    client = tarry.Client(redisson="3.12.5")
    with pytest.raises(BadInput, match=r"FstCodec.*JsonJacksonCodec.*codec=\"json\""):
        client.delayed_queue("q").offer("tea", 1)
    assert client.delayed_queue("q", codec="json").verbs.context.format is OLD
