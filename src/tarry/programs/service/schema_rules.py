"""Rules about several fields of a request, as JSON Schema: the types of a model cannot express them.

A field that is null counts as not given.
"""

from __future__ import annotations

from typing import Any

from tarry.wire.job_models import IF_EXISTS, WITHOUT_ID

Schema = dict[str, Any]


def _given(name: str) -> Schema:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _absent(*names: str) -> Schema:
    return {"properties": {name: {"type": "null"} for name in names}}


def _is(name: str, value: Any) -> Schema:
    return {"required": [name], "properties": {name: {"const": value}}}


def _both(*parts: Schema) -> Schema:
    found: Schema = {"required": [], "properties": {}}
    for part in parts:
        found["required"] += part.get("required", [])
        found["properties"] |= part["properties"]
    return found


def _any(*parts: Schema) -> Schema:
    return {"anyOf": list(parts)}


def _all(*parts: Schema) -> Schema:
    """Beside a model's fields: generators read ``anyOf`` there as other models than this one."""
    return {"allOf": list(parts)}


_JSON: Schema = {
    "required": ["body"],
    "properties": {"body": {}, "body_base64": {"type": "null"}, "coded": {"const": False}},
}
_BYTES = {"required": ["body_base64"], "properties": {"body_base64": {"type": "string"}, "body": False}}
_NO_BYTES = {"properties": {"body_base64": {"type": "null"}}}
_A_BODY = _any(_JSON, _BYTES)
_ONE_TIME = _any(_absent("at"), _absent("delay"))
_WHEN = _any(_both(_given("delay"), _absent("at")), _both(_given("at"), _absent("delay")))
_EACH_WITH_ID: Schema = {"properties": {"jobs": {"items": _given("id")}}}


def _by_id(with_id: Schema) -> list[Schema]:
    """``latest`` and ``once`` are for jobs with an id."""
    others: Schema = {"properties": {IF_EXISTS: {"enum": [*WITHOUT_ID]}}}
    return [_any(_absent("latest"), _both(_is(IF_EXISTS, "replace"), with_id)), _any(others, with_id)]


RULES: dict[str, Schema] = {
    "Add": _all(_A_BODY, _ONE_TIME, *_by_id(_given("id"))),
    "OneOfMany": _all(_A_BODY, _ONE_TIME),
    "AddMany": _all(_ONE_TIME, *_by_id(_EACH_WITH_ID)),
    "Pushed": _all(_A_BODY),
    "PushItems": _all(
        _any(
            {"properties": {"layout": {"const": "tarry"}}},
            {"properties": {"items": {"items": {"required": ["body"]}}}},
        )
    ),
    "DeleteMany": _all(_any({"properties": {"running": {"const": False}}}, _absent("state"))),
    "Reschedule": _all(_WHEN),
    "RescheduleMany": _all(_WHEN),
    "PutSchedule": _all(
        _any(_both(_given("every"), _absent("cron")), _both(_given("cron"), _absent("every", "first"))),
        _any(_NO_BYTES, _BYTES),
    ),
    "Remove": _all(_any(_is("all", True), {"properties": {"values": {"minItems": 1, "maxItems": 1}}})),
}
