"""How the body of a request becomes the model of its route, and the parameters of its query.

Integers with a decimal point: ``7.0`` is an integer in JSON Schema, and for clients that know only doubles. A body that is refused
for one is decoded again with a looser model, and re-encoded; JSON that passes through is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from tarry.errors import BadInput

FLOAT_FOR_INTEGER, UNKNOWN_FIELD, UNKNOWN_WORD = "got `float`", "unknown field", "Invalid enum value"
Decode = Callable[[bytes], Any]


def decoder(model: Any) -> Decode:
    if model is None:
        return lambda _: None
    return partial(_decode_json, msgspec.json.Decoder(model).decode, model)


def query_decoder(model: Any) -> Callable[[Mapping[str, str]], Any]:
    if model is None:
        return lambda _: None
    return partial(_decode_query, model, _text_fields(model))


def _text_fields(model: Any) -> frozenset[str]:
    """The fields that may be any text."""
    hints = get_type_hints(model)  # without Annotated
    return frozenset(name for name, kind in hints.items() if str in (kind, *get_args(kind)))


def _decode_query(model: Any, texts: frozenset[str], query: Mapping[str, str]) -> Any:
    for name, text in query.items():
        if name not in texts and text.lower() == "null":  # msgspec would take it for None
            raise BadInput(f"query: {name} is null; leave it out.")
    try:
        return msgspec.convert(query, type=model, strict=False)
    except msgspec.ValidationError as fault:
        raise _with_choices(fault, model) from None


def _decode_json(decode: Decode, model: Any, raw: bytes) -> Any:
    try:
        try:
            return decode(raw)
        except msgspec.ValidationError as fault:
            if FLOAT_FOR_INTEGER not in str(fault):
                raise
            return decode(_normalize_integers(raw, model))  # 7.0 is an integer in JSON Schema
    except msgspec.ValidationError as fault:
        raise _with_choices(fault, model) from None


def _with_choices(fault: msgspec.ValidationError, model: Any) -> msgspec.ValidationError:
    """The same error; that of an unknown field also names those that there are, and that of a word the words that may stand there."""
    said, _, place = str(fault).partition("`$")
    if UNKNOWN_FIELD in said:
        known = next(_structs_of(_kind_at(model, place))).__struct_fields__
        return msgspec.ValidationError(f"{fault}; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}")
    if said.startswith(UNKNOWN_WORD):
        *others, last = (f'"{word}"' for word in _words_of(_kind_at(model, place)))
        return msgspec.ValidationError(f"{fault}; it is {', '.join(others)}{' or ' if others else ''}{last}")
    return fault


def _kind_at(model: Any, place: str) -> Any:
    """The type at a place of the model, such as ``.jobs[0].priority``."""
    for name in re.findall(r"\.(\w+)", place):
        model = get_type_hints(next(_structs_of(model)))[name]  # without Annotated
    return model


def _structs_of(kind: Any) -> Iterator[Any]:
    if hasattr(kind, "__struct_fields__"):
        yield kind
    for part in get_args(kind):
        yield from _structs_of(part)


def _words_of(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for part in get_args(kind):
            yield from _words_of(part)


def _normalize_integers(raw: bytes, model: Any) -> bytes:
    """The same JSON, its whole numbers without a decimal point."""
    return msgspec.json.encode(_as_integer(msgspec.json.decode(raw, type=_loose_model(model))))


@lru_cache
def _loose_model(kind: Any) -> Any:
    """The same model, but it accepts any number where it has an integer."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        names = kind.__struct_fields__
        fields = [(name, Union[_loose_model(hints[name]), msgspec.UnsetType], msgspec.UNSET) for name in names]  # noqa: UP007
        return msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        loose = _loose_model(parts[0])
        return kind if loose is parts[0] else loose
    if origin in (Union, UnionType):
        return Union[tuple(map(_loose_model, parts))]  # noqa: UP007
    if origin is list:
        return list[_loose_model(parts[0])]  # type: ignore[misc]
    return Union[int, float] if kind is int else kind  # noqa: UP007


def _as_integer(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            setattr(value, name, _as_integer(getattr(value, name)))
    elif isinstance(value, list):
        return [_as_integer(one) for one in value]
    elif isinstance(value, float) and value.is_integer():
        return int(value)
    return value
