"""Rules about several fields of a request, as JSON Schema: the types of a model cannot express them.

A field that is null counts as not given.
"""

from __future__ import annotations

from typing import Any

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


_JSON = {"required": ["body"], "properties": {"body_base64": {"type": "null"}, "coded": {"const": False}}}
_BYTES = {"required": ["body_base64"], "properties": {"body_base64": {"type": "string"}, "body": False}}
_NO_BYTES = {"properties": {"body_base64": {"type": "null"}}}
_A_BODY = {"anyOf": [_JSON, _BYTES]}
_ONE_TIME = {"anyOf": [_absent("at"), _absent("delay")]}
_WHEN = {"anyOf": [_both(_given("delay"), _absent("at")), _both(_given("at"), _absent("delay"))]}
RULES: dict[str, Schema] = {
    "Add": {"allOf": [_A_BODY, _ONE_TIME]},
    "OneOfMany": {"allOf": [_A_BODY, _ONE_TIME]},
    "AddMany": _ONE_TIME,
    "Pushed": _A_BODY,
    "PushItems": {
        "anyOf": [
            {"properties": {"layout": {"const": "tarry"}}},
            {"properties": {"items": {"items": {"required": ["body"]}}}},
        ]
    },
    "DeleteMany": {"anyOf": [{"properties": {"running": {"const": False}}}, _absent("state")]},
    "Reschedule": _WHEN,
    "RescheduleMany": _WHEN,
    "PutSchedule": {
        "allOf": [
            {"anyOf": [_both(_given("every"), _absent("cron")), _both(_given("cron"), _absent("every", "first"))]},
            {"anyOf": [_NO_BYTES, _BYTES]},
        ]
    },
    "Remove": {"anyOf": [_is("all", True), {"properties": {"values": {"minItems": 1, "maxItems": 1}}}]},
}
