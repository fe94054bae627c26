"""Where an option of an add is written, and what is written there: the places of ``options.py``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from option_table import Option, Stored, Way

Nodes = list[tuple[str, Any, Any]]
"""Names, and the first and the last node of each."""
Write = Callable[[Option], "tuple[str, str] | None"]
"""The name of an option in a list, and its text; nothing if it does not belong there."""
IN_LINE, IN_CHAIN, IN_CLASS = ", ", " and ", "\n    "


class Place(NamedTuple):
    """A list of options in a definition of a module."""

    file: str
    owner: str
    find: Callable[[Any], Nodes]
    write: Write
    between: str = IN_LINE


# ── what is in a list ────────────────────────────────────────────────────────────────────────────────────────────────────


def parameters(owner: Any) -> Nodes:
    """Those with a default: by name, or where there are none, by place."""
    args = owner.args
    by_place = zip(args.args[len(args.args) - len(args.defaults) :], args.defaults, strict=True)
    by_name = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return [(arg.arg, arg, default) for arg, default in (by_name if args.kwonlyargs else by_place) if default]


def arguments(call: str) -> Callable[[Any], Nodes]:
    """Those that a call gives by name."""

    def find(owner: Any) -> Nodes:
        calls = (one for one in ast.walk(owner) if isinstance(one, ast.Call) and ast.unparse(one.func) == call)
        return [(str(one.arg), one, one) for one in next(calls).keywords]

    return find


def conditions(owner: Any) -> Nodes:
    """Those of the longest ``and``, by the attribute that each compares."""
    chains: list[Any] = [one for one in ast.walk(owner) if isinstance(one, ast.BoolOp)]
    return [(one.left.attr, one, one) for one in max(chains, key=lambda chain: len(chain.values)).values]


def rows(owner: Any) -> Nodes:
    """The elements of a tuple; calls by their first arguments."""
    elements: list[Any] = owner.value.elts
    return [(one.id if isinstance(one, ast.Name) else one.args[0].value, one, one) for one in elements]


def fields(owner: Any) -> Nodes:
    return [(ast.unparse(one.target), one, one) for one in owner.body if isinstance(one, ast.AnnAssign)]


def properties(owner: Any) -> Nodes:
    found = (one for one in owner.body if isinstance(one, ast.FunctionDef) and one.decorator_list)
    return [(one.name, one.decorator_list[0], one) for one in found]


# ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────────────


def where(belongs: Callable[[Option], object], text: Callable[[Option], str]) -> Write:
    return lambda one: (one.name, text(one)) if belongs(one) else None


def taken(way: Way, text: Callable[[Option], str]) -> Write:
    """The options that a way to add jobs takes."""
    return where(lambda one: way in one.ways, text)


def stored(text: Callable[[Option, Stored], str]) -> Write:
    """The fields that are stored with a job."""
    return lambda one: (one.stored.field, text(one, one.stored)) if one.stored else None


def shown(text: Callable[[Option, Stored], str]) -> Write:
    """The fields that a job shows."""
    return lambda one: (one.name, text(one, one.stored)) if one.stored and one.stored.shown else None


def further(text: Callable[[Stored], str]) -> Write:
    """The fields that further flags name."""
    return lambda one: (one.stored.field, text(one.stored)) if one.stored and one.stored.flag else None


def parameter(one: Option) -> str:
    return f"{one.name}: {one.kind} = {one.default}"


def absent(one: Option) -> str:
    """What a job has that takes the option from its call."""
    return "UNSET" if "UnsetType" in (one.of_job or one.kind) else "None"


def of_job(one: Option) -> str:
    return f"{one.name}: {one.of_job or one.kind} = field(default={absent(one)}, kw_only=True)"


def of_request(one: Option, kind: str = "") -> str:
    kind = kind or one.wire
    return f"{one.name}: {kind} | None = {absent(one)}" if "job" in one.ways else f"{one.name}: {kind} = {one.default}"


def flag(way: Way) -> Write:
    def write(one: Option) -> tuple[str, str] | None:
        name, own = one.flag_name or one.name, one.flag_of_schedule if way == "schedule" else ""
        return (name, f"{name}: {own or one.flag} = {one.flag_default}") if way in one.ways else None

    return write


def parsed(one: Option) -> str:
    return f"{one.name}={one.parse.format(one.flag_name or one.name)}"


def field_of(_: Option, how: Stored) -> str:
    return f"{how.field}: {how.kind} = {how.default}"


def own_or_of_call(one: Option, how: Stored) -> str:
    return f"{how.field}=call.{how.field} if job.{one.name} is {absent(one)} else {how.encode}(job.{one.name})"


def property_of(how: Stored, text: str) -> str:
    return f'@property\n    def {how.field}(self) -> {how.kind}:\n        """{text}"""\n        return self.head.{how.field}'


def further_field(how: Stored) -> str:
    kind = "_Text()" if how.format == "text" else f'_Number("<{how.format}")'
    return f'_FurtherField("{how.field}", {how.flag}, {kind})'


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def signature(file: str, owner: str, way: Way) -> Iterator[Place]:
    """A function that takes options, and makes ``JobOptions`` of them."""
    yield Place(file, owner, parameters, taken(way, parameter))
    yield Place(file, owner, arguments("JobOptions"), taken(way, lambda one: f"{one.name}={one.name}"))


def places() -> Iterator[Place]:
    yield from signature("clients/awaited/topic.py", "AsyncTopic.add", "call")
    yield from signature("clients/awaited/topic.py", "AsyncTopic.add_many", "call")
    yield from signature("clients/awaited/schedules.py", "AsyncSchedules.put", "schedule")
    yield from signature("worker/tasks.py", "Task.options", "call")
    yield from signature("worker/task_schedules.py", "ScheduleDecorators.every", "schedule")
    yield from signature("worker/task_schedules.py", "ScheduleDecorators.cron", "schedule")

    file = "verbs/jobs/options.py"
    rare = where(lambda one: not one.cached, lambda one: f"self.{one.name} is {one.default}")
    back = where(lambda one: one.stored, lambda one: f"{one.name}={one.stored and one.stored.decode}")
    not_own = where(lambda one: one.stored, lambda one: f"job.{one.name} is {absent(one)}")
    encoded = stored(lambda one, how: f"{how.field}={how.encode}(options.{one.name})")
    yield Place(file, "JobOptions", fields, taken("call", parameter), IN_CLASS)
    yield Place(file, "JobOptions.encode", conditions, rare, IN_CHAIN)
    yield Place(file, "JobOptions.of", arguments("JobOptions"), back)
    yield Place(file, "NewJob", fields, taken("job", of_job), IN_CLASS)
    yield Place(file, "EncodedOptions.of_job", conditions, not_own, IN_CHAIN)
    yield Place(file, "EncodedOptions.of_job", arguments("records.pack_head"), stored(own_or_of_call))
    yield Place(file, "_encode", arguments("JobContents"), encoded)
    yield Place("verbs/jobs/job_fields.py", "JobContents", fields, stored(field_of), IN_CLASS)
    packed = stored(lambda _, how: f"{how.field}=contents.{how.field}")
    yield Place(file, "_encode", arguments("records.pack_head"), packed)
    yield Place("verbs/jobs/records.py", "_FURTHER_FIELDS", rows, further(further_field))
    yield Place("verbs/jobs/records.py", "pack_head", parameters, stored(field_of))
    yield Place("verbs/jobs/records.py", "pack_head.further", rows, further(lambda how: how.field))
    of_a_job = shown(lambda _, how: property_of(how, how.shown))
    of_schedules = shown(lambda _, how: property_of(how, how.shown_of_schedule))
    yield Place("verbs/jobs/job_values.py", "StoredJob", properties, of_a_job, "\n" + IN_CLASS)
    yield Place("verbs/jobs/schedule_info.py", "Schedule", properties, of_schedules, "\n" + IN_CLASS)

    file, out = "wire/answers.py", shown(lambda _, how: f"{how.field}=head.{how.field}")
    yield Place(file, "Carried", fields, shown(field_of), IN_CLASS)
    yield Place(file, "carried_fields", arguments("fields.update"), out)
    carried = shown(lambda _, how: f"{how.field}=record.{how.field}")
    yield Place(file, "carried_contents", arguments("contents.JobContents"), carried)
    file, of_call = "wire/job_models.py", where(lambda one: one.ways == ("call",), of_request)
    yield Place(file, "Options", fields, taken("job", of_request), IN_CLASS)
    yield Place(file, "Add", fields, of_call, IN_CLASS)
    yield Place(file, "AddMany", fields, of_call, IN_CLASS)
    of_query = where(lambda one: one.query != "-", lambda one: of_request(one, one.query))
    yield Place(file, "AddQuery", fields, of_query, IN_CLASS)
    yield Place("wire/endpoints/schedule_endpoints.py", "PutSchedule", fields, taken("schedule", of_request), IN_CLASS)

    yield Place("programs/cli/job_commands.py", "add", parameters, flag("call"))
    yield Place("programs/cli/job_commands.py", "add", arguments("JobOptions"), taken("call", parsed))
    file, put = "programs/cli/schedule_commands.py", arguments("session.client.schedules.put")
    yield Place(file, "put", parameters, flag("schedule"))
    yield Place(file, "put", put, taken("schedule", parsed))
