"""The options of an add, a row for each: who takes it, its types, and how it is stored. ``tools/options.py`` writes them from here.

A new option needs a row, and what the row names: a function in ``verbs/jobs/options.py`` that checks and encodes a value, and a type in
``wire/types.py``. A further flag and a format need nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Way = Literal["call", "job", "schedule"]
"""A call of ``add``, ``add_many`` or ``options``; a job of many, ``NewJob``; the jobs of a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How an option is stored with its job: as a field of ``JobContents``, whose default says that it was not given."""

    field: str
    kind: str
    default: str = "None"
    encode: str
    """The function that makes the field of a value, and raises ``BadInput``."""
    decode: str
    """The value of the option, from ``head``."""
    flag: int = 0
    """The further flag that names the field: the next free power of two."""
    format: str = ""
    """What is stored with a further flag: a number, in the letters of ``struct``, ``text``, or ``bytes``, which may be long."""
    lua: str = ""
    """What scripts call it that read it."""
    shown: str = ""
    """What the property of a job says that has the option's name."""
    shown_of_schedule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option: its type and default in signatures, and its types elsewhere."""

    name: str
    kind: str
    default: str = "None"
    ways: tuple[Way, ...] = ("call", "job", "schedule")
    cached: bool = False
    """Whether it may be given where an encoding is remembered, because its values come again and again."""
    of_job: str = ""
    """Its type in ``NewJob``, where ``None`` stands for what the call says; empty: the same."""
    wire: str
    """Its type in the body of a request."""
    query: str = ""
    """Its type in a query; empty: the same; ``-``: it is not there."""
    flag: str
    """Its type on the command line."""
    flag_of_schedule: str = ""
    flag_name: str = ""
    flag_default: str = "None"
    parse: str = "{}"
    """The option's value, of that on the command line."""
    stored: Stored | None = None


def flag(metavar: str, help: str, kind: str = "str | None", more: str = "show_default=False") -> str:
    """The type of an option of the command line."""
    return f"Annotated[{kind}, typer.Option(metavar={metavar!r}, help={help!r}{more and f', {more}'})]"


OPTIONS = (
    Option(
        name="delay",
        kind="Duration | UnsetType",
        default="UNSET",
        ways=("call", "job"),
        cached=True,
        of_job="Duration | None",
        wire="Span",
        query="Words",
        flag="Delay",
        parse="UNSET if {0} is None else {0}",
    ),
    Option(
        name="at",
        kind="datetime | None",
        ways=("call", "job"),
        wire="Moment",
        flag="At",
        parse='arguments.parse_moment({}, "at")',
    ),
    Option(
        name="if_exists",
        kind="IfExists",
        default='"error"',
        ways=("call",),
        cached=True,
        wire="IfExists",
        flag=flag(
            "ACTION",
            "When the id is taken: error, keep, once, replace or update.",
            "str",
            'autocompletion=complete_words("error", "keep", "once", "replace", "update")',
        ),
        flag_default='"error"',
        parse="arguments.parse_choice({})",
    ),
    Option(
        name="latest",
        kind="Duration | None",
        ways=("call",),
        wire="SomeSpan | None",
        query="SomeWords | None",
        flag=flag("DURATION", "With replace: due at most this long after the first event."),
    ),
    Option(
        name="ttr",
        kind="Duration | None",
        cached=True,
        wire="Ttr",
        query="TtrWords",
        flag="Ttr",
        flag_of_schedule=flag("DURATION", "Time to run, such as 30s."),
        stored=Stored(
            field="ttr_ms",
            kind="int",
            default="0",
            encode="ttr_ms_of",
            decode="timedelta(milliseconds=head.ttr_ms) if head.ttr_ms else None",
        ),
    ),
    Option(
        name="max_attempts",
        kind="int | UnsetType | None",
        default="UNSET",
        cached=True,
        wire="Attempts | UnsetType",
        flag=flag("N", "After this many attempts it is dead; none: no limit."),
        flag_of_schedule=flag("N", "After this many attempts a job is dead; none: no limit."),
        parse="arguments.parse_limit({})",
        stored=Stored(
            field="max_attempts",
            kind="int",
            default="0",
            encode="max_attempts_of",
            decode="head.given_max_attempts",
        ),
    ),
    Option(
        name="headers",
        kind="Mapping[str, str] | None",
        wire="Headers",
        query="-",
        flag=flag("NAME=VALUE", "name=value; may be repeated.", "list[str] | None"),
        flag_name="header",
        parse="arguments.parse_headers({})",
        stored=Stored(
            field="headers",
            kind="bytes | dict[str, str] | None",
            default='b""',
            encode="records.pack_headers",
            decode="records.unpack_headers(head.headers) or None",
        ),
    ),
    Option(
        name="max_lateness",
        kind="Duration | None",
        cached=True,
        wire="SomeSpan",
        query="SomeWords",
        flag=flag("DURATION", "Buried as too late if it is later than this."),
        flag_of_schedule=flag("DURATION", "Jobs that are later are buried as too late."),
        stored=Stored(
            field="max_lateness_us",
            kind="int | None",
            encode="max_lateness_us",
            decode="None if head.max_lateness_us is None else timedelta(microseconds=head.max_lateness_us)",
            flag=1,
            format="d",
            lua="max_lateness",
        ),
    ),
    Option(
        name="priority",
        kind="int",
        default="0",
        cached=True,
        of_job="int | None",
        wire="Priority",
        flag=flag("N", "0 to 3: of the jobs that are due, the highest is handed out first.", "int", ""),
        flag_of_schedule=flag(
            "N", "Of its jobs, 0 to 3: of the jobs that are due, the highest is handed out first.", "int", ""
        ),
        flag_default="0",
        stored=Stored(
            field="priority",
            kind="int",
            default="0",
            encode="priority_of",
            decode="head.priority",
            shown="0 to 3: of the due jobs of a topic, those with the highest priority are handed out first.",
            shown_of_schedule="The priority of the schedule's jobs.",
        ),
    ),
    Option(
        name="key",
        kind="str | None",
        wire="Key",
        flag=flag("TEXT", "A word such as customer-7: the topic's limits for keys count the jobs of each."),
        flag_of_schedule=flag("TEXT", "A word such as customer-7: the topic's limits for keys count the jobs of each."),
        stored=Stored(
            field="key",
            kind="str | None",
            encode="key_of",
            decode="head.key",
            flag=8,
            format="text",
            lua="key",
            shown="The word given to ``add``, such as a customer's name, by which the topic's limits for keys count jobs; ``None`` without one.",
            shown_of_schedule="The key of the schedule's jobs.",
        ),
    ),
    Option(
        name="durability",
        kind="Durability",
        ways=("call",),
        cached=True,
        wire="Durable",
        flag=flag("LEVEL", "Wait until this many replicas have it, or: fsynced."),
        parse="arguments.parse_durability({})",
    ),
)

BY_SCRIPTS = (
    Stored(field="first", kind="int | None", encode="", decode="", flag=2, format="d", lua="first"),
    Stored(field="steps", kind="bytes", encode="", decode="", flag=4, format="bytes"),
)
"""What scripts store with a job, behind all that clients give: the moment of the first event that the job stands for, and the results of its
steps."""
