"""Schemas as generators of clients read them best: what msgspec writes, with the same meaning and fewer parts.

    anyOf[integer 1…9, number 0.1…9, string]   number 0.1…9 | string     an integer is a number
    allOf[{minimum: 1}], minimum: 0            minimum: 1                the narrower bound
    anyOf[{description: d, anyOf[a, b]}, null] description: d, anyOf[a, b, null]
    enum without a type                        type: string

A default says what the service takes where a field is left out, in requests and in answers. Generators read it otherwise: as a
field that is always there. So it stands in the description.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

Schema = dict[str, Any]
DATA = {"default", "example", "enum", "const"}
NULL = {"type": "null"}


def plain(schema: Any) -> Any:
    """The schema, and all in it, with fewer parts."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: part if name in DATA else plain(part) for name, part in schema.items()}
    if isinstance(words := found.get("description"), str):
        found["description"] = inspect.cleandoc(words).replace("``", "`")
    return _with_type(_without_nested(_bounded(found)))


def without_defaults(model: Schema) -> Schema:
    """The schema of a model whose descriptions tell what holds without a field."""
    if "properties" not in model:
        return model
    return {**model, "properties": {name: _said(field) for name, field in model["properties"].items()}}


def _said(field: Schema) -> Schema:
    if "default" not in field:
        return field
    rest = {name: part for name, part in field.items() if name != "default"}
    if field["default"] is None:
        return rest
    words = f"Without it: {msgspec.json.encode(field['default']).decode()}"
    return {**rest, "description": f"{rest['description']}. {words}" if "description" in rest else words}


def _bounded(schema: Schema) -> Schema:
    parts: list[Schema] = schema.get("allOf", [])
    if len(parts) == 1 and parts[0].keys() <= {"minimum", "maximum"} and "type" in schema:
        return {name: part for name, part in schema.items() if name != "allOf"} | parts[0]
    return schema


def _without_nested(schema: Schema) -> Schema:
    if "anyOf" not in schema:
        return schema
    rest = {name: part for name, part in schema.items() if name != "anyOf"}
    parts: list[Schema] = schema["anyOf"]
    if len(parts) == 2 and parts[1] == NULL and "description" in parts[0]:
        rest = {"description": parts[0]["description"], **rest}
        parts = [{name: part for name, part in parts[0].items() if name != "description"}, NULL]
    parts = [one for part in parts for one in (part["anyOf"] if part.keys() == {"anyOf"} else [part])]
    kinds = [part.get("type") for part in parts]
    if "number" in kinds:
        parts = [part for part, kind in zip(parts, kinds, strict=True) if kind != "integer"]
    words = [word for part in parts if _is_words(part) for word in part["enum"]]
    if words:
        parts = [{"type": "string", "enum": words}, *(part for part in parts if not _is_words(part))]
    return rest | (parts[0] if len(parts) == 1 else {"anyOf": parts})


def _is_words(part: Schema) -> bool:
    return "enum" in part and part.keys() <= {"enum", "type"} and part.get("type") == "string"


def _with_type(schema: Schema) -> Schema:
    is_words = "enum" in schema and all(isinstance(word, str) for word in schema["enum"])
    return {"type": "string", **schema} if is_words else schema
