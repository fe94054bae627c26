"""How values of the library become JSON, and JSON the same values again: one rule for the service, its clients and the CLI.

field of the value          in JSON
timedelta     ttr           ttr_ms        milliseconds to the microsecond, a whole number where it is one
datetime      due           due           RFC 3339
Rate          rate          rate          "100/1m"
bytes         raw           raw_base64
tuple, list   faults        faults        a list
a dataclass   lateness      lateness      an object, by the same rule
Mapping[int, int]           buckets       an object; its names are text in JSON

STATS = schema_of(Stats, "TopicStats", "…")       STATS.model        what OpenAPI shows
                                                  STATS.dump(now)    Stats → model, which msgspec encodes
                                                  STATS.decode(raw)  JSON → Stats
"""

from __future__ import annotations

import dataclasses
import types
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from tarry.values import rates
from tarry.values.rates import Rate
from tarry.wire.types import Base64, Milliseconds, Moment, from_ms, ms

_MS = "_ms"
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Convert = Callable[[Any], Any]


class Schema(Generic[T]):
    """One kind of answer: ``model`` is its form in JSON, ``dump`` makes the model of a value, ``load`` the value of a model."""

    model: type[Any] | None

    def __init__(self, model: type[Any], dump: Callable[[T], Any], load: Callable[..., T]) -> None:
        self.model = model
        self.dump = dump
        self.load = load

    @cached_property
    def _decode(self) -> Convert:
        return msgspec.json.Decoder(self.model).decode

    def decode(self, raw: bytes, *known: Any) -> T:
        """The value of a JSON text; ``known``: what ``load`` needs besides. Raises ``msgspec.MsgspecError``."""
        return self.load(self._decode(raw), *known)

    def decoder(self, *known: Any) -> Callable[[bytes], T]:
        """``decode`` with what is known."""
        return lambda raw: self.load(self._decode(raw), *known)


class _EmptySchema(Schema[None]):
    def __init__(self) -> None:
        self.model = None

    def decode(self, raw: bytes, *_: Any) -> None:
        """Raises ``ValueError`` for any other answer, such as a page of another program."""
        if raw:
            raise ValueError("no answer was expected")


NOTHING = _EmptySchema()
"""The schema of no answer: 204."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    wire_name: str
    kind: Any
    out: Convert | None
    back: Convert | None
    default: Any
    derived: bool


_schemas: dict[type[Any], Schema[Any]] = {}


def schema_of(
    kind: type[T],
    name: str,
    doc: str,
    *,
    renamed: Mapping[str, str] = types.MappingProxyType({}),
    known: str = "",
    derived: tuple[str, ...] = (),
    omit_defaults: bool = False,
) -> Schema[T]:
    """The schema of a dataclass or Struct. ``renamed``: other names in JSON; ``known``: a field that JSON does not have, and
    ``load`` is given; ``derived``: properties that JSON has too."""
    fields = [field for field in _fields(kind, derived, renamed) if field.name != known]
    rows = [
        (field.wire_name, field.kind)
        if field.default is msgspec.NODEFAULT
        else (field.wire_name, field.kind, field.default)
        for field in fields
    ]
    model = msgspec.defstruct(name, rows, namespace={"__doc__": doc}, module=__name__, omit_defaults=omit_defaults)
    made_of = [field for field in fields if not field.derived]

    def dump(value: T) -> Any:
        return model(
            *[
                getattr(value, field.name) if field.out is None else field.out(getattr(value, field.name))
                for field in fields
            ]
        )

    def load(found: Any, *more_args: Any) -> T:
        values = {
            field.name: getattr(found, field.wire_name)
            if field.back is None
            else field.back(getattr(found, field.wire_name))
            for field in made_of
        }
        return kind(**values, **dict(zip([known], more_args, strict=False)))

    schema = _schemas[kind] = Schema(model, dump, load)
    return schema


def field_schema(name: str, field: str, hint: Any, doc: str) -> Schema[Any]:
    """The schema of a value that is one field of an object in JSON: a number, a list."""
    suffix, kind, out, back = _conversion(hint)
    model = msgspec.defstruct(name, [(field + suffix, kind)], namespace={"__doc__": doc}, module=__name__)
    dump, load = _unchanged if out is None else out, _unchanged if back is None else back

    def load_field(found: Any) -> Any:
        return load(getattr(found, field + suffix))

    return Schema(model, lambda value: model(dump(value)), load_field)


def model_schema(model: type[S]) -> Schema[S]:
    """The schema of an answer that is its own model."""
    return Schema(model, _unchanged, _unchanged)


class SharedFields:
    """The fields that a value and a model written by hand have in common, by the same rule. ``without``: those of a model above
    it, or by their names."""

    def __init__(self, model: type[msgspec.Struct], above: type[msgspec.Struct], *without: str) -> None:
        names = [name for name in model.__struct_fields__ if name not in (*above.__struct_fields__, *without)]
        self._names = tuple(name for name in names if not name.endswith(_MS))
        self._spans = [(name, name.removesuffix(_MS)) for name in names if name.endswith(_MS)]
        self._get = attrgetter("__class__", *self._names)  # of two names at least it makes a tuple

    @property
    def wire_names(self) -> list[str]:
        """The names in JSON."""
        return [*self._names, *(wire_name for wire_name, _ in self._spans)]

    def dump(self, value: Any) -> dict[str, Any]:
        """The model's fields."""
        found: dict[str, Any] = dict(zip(self._names, self._get(value)[1:], strict=True))
        for wire_name, name in self._spans:
            span = getattr(value, name)
            found[wire_name] = None if span is None else ms(span)
        return found

    def load(self, found: Any) -> dict[str, Any]:
        """The value's fields."""
        values: dict[str, Any] = dict(zip(self._names, self._get(found)[1:], strict=True))
        for wire_name, name in self._spans:
            span = getattr(found, wire_name)
            values[name] = None if span is None else from_ms(span)
        return values


def _fields(kind: Any, derived: tuple[str, ...], renamed: Mapping[str, str]) -> list[_Field]:
    """The fields without a default first: a model needs them so."""
    hints, info = typing.get_type_hints(kind), typing.cast("Any", msgspec.inspect.type_info(kind))
    of_properties = [(name, typing.get_type_hints(getattr(kind, name).fget)["return"]) for name in derived]
    found = [_field(one.name, hints[one.name], one, renamed) for one in info.fields]
    found += [_field(name, hint, None, renamed) for name, hint in of_properties]
    return sorted(found, key=lambda one: one.default is not msgspec.NODEFAULT)


def _field(name: str, hint: Any, info: Any, renamed: Mapping[str, str]) -> _Field:
    suffix, kind, out, back = _conversion(hint)
    default: Any = msgspec.NODEFAULT
    if info is not None and not info.required:
        make = info.default_factory
        default = info.default if make is msgspec.NODEFAULT else msgspec.field(default_factory=make)
    return _Field(
        name=name,
        wire_name=renamed.get(name, name) + suffix,
        kind=kind,
        out=out,
        back=back,
        default=default,
        derived=info is None,
    )


def _conversion(hint: Any) -> tuple[str, Any, Convert | None, Convert | None]:
    """A type in JSON: what its name ends with, its type there, the way out and the way back (``None``: it stays as it is)."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union) and type(None) in args:
        (inner,) = [arg for arg in args if arg is not type(None)]
        suffix, kind, out, back = _conversion(inner)
        return suffix, kind | None, _unless_none(out), _unless_none(back)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (tuple, list):
        _, kind, out, back = _conversion(args[0])
        return "", list[kind], partial(_each, list, out), partial(_each, origin, back)  # type: ignore[valid-type]  # made now
    if origin is Mapping and args[0] is int:
        return "", dict[str, int], _with_text_names, _with_numbers
    if dataclasses.is_dataclass(hint) or hint in _schemas:
        schema = _schemas[typing.cast("type[Any]", hint)]
        return "", schema.model, schema.dump, schema.load
    return "", hint, None, None


def _unchanged(value: Any) -> Any:
    return value


def _unless_none(convert: Convert | None) -> Convert | None:
    return convert and (lambda value: None if value is None else convert(value))


def _each(kind: Any, convert: Convert | None, values: Any) -> Any:
    return kind(values) if convert is None else kind(map(convert, values))


def _with_text_names(values: Mapping[int, int]) -> dict[str, int]:
    return {str(number): value for number, value in values.items()}


def _with_numbers(values: Mapping[str, int]) -> dict[int, int]:
    return {int(text): value for text, value in values.items()}


def _rate(text: str) -> Rate:
    return rates.as_rate(*rates.parse_rate(text.replace(" ", "")))


def base64_text(raw: bytes) -> str:
    return b64encode(raw).decode()


_SCALARS: dict[Any, tuple[str, Any, Convert | None, Convert | None]] = {
    timedelta: (_MS, Milliseconds, ms, from_ms),
    datetime: ("", Moment, None, None),
    Rate: ("", str, str, _rate),
    bytes: ("_base64", Base64, base64_text, b64decode),
}
