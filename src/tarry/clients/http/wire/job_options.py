"""The options of an add as fields of a request, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from msgspec import Struct, structs

from tarry.values.durations import duration_us
from tarry.verbs.jobs.options import DEFAULT_OPTIONS, DURATIONS, JobOptions, NewJob

_DEFAULTS: dict[type, dict[str, Any]] = {
    JobOptions: structs.asdict(DEFAULT_OPTIONS),
    NewJob: {one.name: one.default for one in fields(NewJob) if one.name not in ("body", "id")},
}


def option_fields(options: JobOptions | NewJob[Any]) -> dict[str, Any]:
    """The options that were given, as fields of a request. Durations are exact to the microsecond."""
    return {
        name: f"{duration_us(value, name)}us" if name in DURATIONS else value
        for name, default in _DEFAULTS[type(options)].items()
        if (value := getattr(options, name)) != default
    }


def given_options(request: Struct) -> dict[str, Any]:
    """The options that a request gives, by their names."""
    shared, values_of = _shared(type(request))
    pairs = zip(shared, values_of(request), strict=True)
    return {name: value for (name, default), value in pairs if value is not default}


@cache
def _shared(model: type[Struct]) -> tuple[tuple[tuple[str, Any], ...], Callable[[Struct], tuple[Any, ...]]]:
    """The fields of a request that are options of an add, with their defaults; and what reads them all."""
    found = [(field.name, field.default) for field in structs.fields(model) if field.name in _DEFAULTS[JobOptions]]
    return tuple(found), attrgetter(*(name for name, _ in found))
