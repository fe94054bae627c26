"""The pages that add, edit and duplicate a job: one form, and the two actions that it sends.

    add, duplicate   ``topic.add``, with an id that the page made: a form that is sent twice adds one job
    edit             an ``add`` that replaces exactly the job that the form showed; another one with its id is refused

An edited job is a new record: it has all its attempts again. A job that is being worked on cannot be edited. One that is handed out
in the moment between the check and the ``add`` is replaced too: its holder finds out when it settles the job.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, structs

from tarry import AsyncTopic, JobInfo
from tarry.errors import BadInput, JobExists
from tarry.internal import JSON_FAULTS, RAW, JobOptions, head_of, one_line, perform, server_verbs
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.lifecycle import is_editable
from tarry.programs.dashboard.page_request import NotFound, PageRequest
from tarry.programs.dashboard.sections import Action, Section

LONGEST_EDITED = 100_000
"""The size of a body that a form can hold; a longer one stays as it is."""
NO_LIMIT_WORD = "no limit"
KINDS = {"json": "JSON", "text": "text"}


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of the form, as text. ``kind`` is one of KINDS, or ``keep`` for a body that a form cannot hold."""

    kind: str = "json"
    body: str = ""
    headers: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """By the names of INPUTS; empty where an option is not given."""


@dataclass(frozen=True, slots=True)
class OptionInput:
    """An input for an option of the job. Options without one stay as they are when a job is edited or duplicated."""

    name: str
    label: str
    placeholder: str
    as_text: Callable[[Any], str]
    """Of a value that was given."""
    parse: Callable[[str], Any]
    is_number: bool = False


async def add_view(visit: PageRequest) -> dict[str, Any]:
    return _context("add", visit.query.get("topic", ""), FormFields())


async def duplicate_view(visit: PageRequest) -> dict[str, Any]:
    job = await _get(visit.topic(), visit.query.get("id", ""))
    return {**_context("duplicate", job.topic, fields_of(job)), "job": job}


async def edit_view(visit: PageRequest) -> dict[str, Any]:
    job = await _get(visit.topic(), visit.query.get("id", ""))
    _check_editable(job)
    return {**_context("edit", job.topic, fields_of(job)), "job": job, "nonce": head_of(job).nonce.hex()}


def _context(mode: str, topic: str, fields: FormFields) -> dict[str, Any]:
    new_id = secrets.token_hex(10)
    return {
        "mode": mode,
        "topic": topic,
        "fields": fields,
        "inputs": INPUTS,
        "kinds": KINDS,
        "new_id": new_id,
        "job": None,
        "nonce": "",
    }


async def _get(topic: AsyncTopic[Any], id: str) -> JobInfo[Any]:
    """The job, from the primary: what is changed depends on it."""
    [job] = await perform(topic, server_verbs(topic).get([id]))
    if job is None:
        raise NotFound(f"{topic.name} has no job with this id: it was finished or deleted, or never added.")
    return job


def _check_editable(job: JobInfo[Any]) -> None:
    if not is_editable(job.state):
        raise BadInput(f"edit: not possible for a {job.state} job; duplicate it instead.")


# ── a job as text ────────────────────────────────────────────────────────────────────────────────────────────────────────


def fields_of(job: JobInfo[Any]) -> FormFields:
    """The form's fields for a job. Raises ``BodyError`` if its record cannot be read."""
    kind, body = _body_as_text(job.raw, head_of(job).flags)
    options = JobOptions.of(head_of(job))
    given = {one.name: getattr(options, one.name) for one in INPUTS}
    texts = {one.name: one.as_text(given[one.name]) for one in INPUTS if given[one.name] != _NOT_GIVEN[one.name]}
    return FormFields(kind, body, _headers_as_text(job.headers), texts)


def _body_as_text(raw: bytes, flags: int) -> tuple[str, str]:
    try:
        text = raw.decode() if flags == RAW else _escaped(msgspec.json.format(raw, indent=2).decode())
    except JSON_FAULTS:
        return "keep", ""
    if len(text) > LONGEST_EDITED or not all(sign.isprintable() or sign in "\n\t" for sign in text):
        return "keep", ""
    return "text" if flags == RAW else "json", text


def _headers_as_text(headers: dict[str, str]) -> str:
    """A line for each; JSON if one of them does not fit in a line, or is not printable."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    try:
        if all(map(str.isprintable, lines)) and _parse_headers("\n".join(lines)) == headers:
            return "\n".join(lines)
    except BadInput:
        pass
    return _escaped(json.dumps(headers, ensure_ascii=False))


def _escaped(text: str) -> str:
    """JSON of the same value, in which everything is printable."""
    return "\n".join(one_line(line, as_json=True) for line in text.split("\n"))


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"


# ── a form as a job ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _options(form: Form, old: JobInfo[Any] | None, *, keeps_due: bool = False) -> JobOptions:
    """The options of a form that shows the old job. With ``keeps_due`` and without a delay a delayed or ready job keeps its due time."""
    delay = form.value("delay")
    at = old.due if old is not None and keeps_due and not delay else None
    texts = {one.name: form.value(one.name) for one in INPUTS}
    options = structs.replace(
        JobOptions() if old is None else JobOptions.of(head_of(old)),
        delay=UNSET if at is not None else delay or 0,
        at=at,
        headers=_parse_headers(form.values.get("headers", "")) or None,
        **{one.name: one.parse(texts[one.name]) if texts[one.name] else _NOT_GIVEN[one.name] for one in INPUTS},
    )
    options.check()
    return options


def _parse_limit(text: str) -> int | None:
    if text != NO_LIMIT_WORD and not _is_number(text):
        raise BadInput(
            f"attempts: {text[:40]!r} is not a whole number. Give one of at most 19 digits, or {NO_LIMIT_WORD!r}; or leave it empty for the topic's default."
        )
    return None if text == NO_LIMIT_WORD else int(text)


def _parse_priority(text: str) -> int:
    if not _is_number(text):
        raise BadInput(f"priority: {text[:40]!r} is not a whole number of at most 19 digits.")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 20  # Python refuses to convert thousands of digits


INPUTS = (
    OptionInput("ttr", "Time to run", "topic's default", _seconds, str),
    OptionInput(
        "max_attempts", "Attempts", "topic's default", lambda n: NO_LIMIT_WORD if n is None else str(n), _parse_limit
    ),
    OptionInput("max_lateness", "Maximum lateness", "topic's default", _seconds, str),
    OptionInput("priority", "Priority", "0", str, _parse_priority, is_number=True),
    OptionInput("key", "Key", "none", str, str),
)
_NOT_GIVEN = structs.asdict(JobOptions())


def _parse_headers(text: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, str])
        except msgspec.MsgspecError as fault:
            raise BadInput(f"headers: {fault}; write one on each line, such as trace: 4711.") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip():
            raise BadInput(f"headers: line {number} is {line[:40]!r}; write a name, a colon and a value.")
        if name.strip() in found:
            raise BadInput(f"headers: {name.strip()[:40]!r} is given twice.")
        found[name.strip()] = value.strip()
    return found


def _body(form: Form, old: JobInfo[Any] | None) -> Any:
    """The body of a form as the codec takes it. Raises ``BadInput`` that says where its JSON is wrong."""
    kind, text = form.value("kind"), form.values.get("body", "").replace("\r\n", "\n")
    if kind == "keep" and old is not None:
        raw, flags = old.raw, head_of(old).flags
        return raw if flags == RAW else msgspec.Raw(raw)
    if kind == "text":
        return text.encode()
    if kind != "json":
        raise BadInput(f"kind: {kind[:40]!r} is unknown; it is json or text.")
    if not text.strip():
        raise BadInput('body: it is empty; write JSON, such as {"order": 7} or null, or choose text.')
    try:
        msgspec.json.decode(text)
        return msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise BadInput(f"body: it is not JSON: {_place_of(text) or fault}. Correct it, or choose text.") from None


def _place_of(text: str) -> str:
    """Where the JSON is wrong, in lines and columns; empty if another parser finds nothing."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return f"line {fault.lineno}, column {fault.colno}: {fault.msg[:1].lower()}{fault.msg[1:]}"
    except RecursionError:
        pass
    return ""


# ── the actions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _plan_add(visit: PageRequest, form: Form) -> ActionPlan:
    _options(form, None)
    visit.client.topic(form.value("topic"))
    return ActionPlan(f"Add a job to {filters.plain(form.value('topic'))}?", "Add")


async def _add(visit: PageRequest, form: Form) -> str:
    topic: AsyncTopic[Any] = visit.client.topic(form.value("topic"))
    source = form.value("source")
    old = await _get(topic, source) if source else None
    options: dict[str, Any] = structs.asdict(_options(form, old))
    id = form.values.get("new", "") or form.value("new_id") or None
    added = await topic.add(_body(form, old), id=id, **options)
    return f"Job {filters.plain(added.id)} was added to {filters.plain(topic.name)}; it is {added.state}."


async def _plan_edit(visit: PageRequest, form: Form) -> ActionPlan:
    job = await _seen(visit, form)
    _options(form, job, keeps_due=True)
    return ActionPlan(f"Replace job {filters.plain(job.id)}?", "Replace it")


async def _edit(visit: PageRequest, form: Form) -> str:
    job = await _seen(visit, form)
    topic: AsyncTopic[Any] = visit.client.topic(job.topic)
    options = _options(form, job, keeps_due=True).encode().replacing_nonce(head_of(job).nonce)
    try:
        added = await perform(topic, server_verbs(topic).add_with(_body(form, job), options, job.id))
    except JobExists:
        raise BadInput(_CHANGED) from None
    return f"Job {filters.plain(job.id)} was replaced; it is {added.state}."


_CHANGED = "edit: nothing was done, because the job has changed since you opened it; open it again."


async def _seen(visit: PageRequest, form: Form) -> JobInfo[Any]:
    """The job that the form showed. Raises ``BadInput`` if it is another one by now, or is being worked on."""
    if len(form.ids) != 1:
        raise BadInput("id: give one.")
    job = await _get(visit.client.topic(form.value("topic")), form.ids[0])
    _check_editable(job)
    if head_of(job).nonce.hex() != form.value("nonce"):
        raise BadInput(_CHANGED)
    return job


SECTIONS = (
    Section("/add", "job_form.html", add_view, every_s=0, admin=True),
    Section("/duplicate", "job_form.html", duplicate_view, every_s=0, admin=True),
    Section("/edit", "job_form.html", edit_view, every_s=0, admin=True),
)
ACTIONS = (
    Action("add", "Add", _plan_add, _add),
    Action("edit", "Replace", _plan_edit, _edit),
)
