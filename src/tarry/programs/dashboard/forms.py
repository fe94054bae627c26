"""Forms: reading the body of one, its fields, and the plan of the action that it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tarry.errors import BadInput
from tarry.programs.dashboard.filters import plain

FORM_TIMEOUT_S = 30.0
"""A form must arrive within this time."""
LONGEST_FORM = 512 << 10
MOST_FIELDS = 1100
MOST_CHOSEN = 1000


class FormTooLong(HTTPException):
    """A form is longer than any form of the dashboard."""


async def read_form(request: Request, longest: int) -> bytes:
    """The body of a form. Raises ``FormTooLong``, and ``HTTPException`` if it is too slow or compressed."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "Send the form without Content-Encoding.")
    raw = bytearray()
    try:
        async with asyncio.timeout(FORM_TIMEOUT_S):
            async for part in request.stream():
                raw += part
                if len(raw) > longest:
                    raise FormTooLong(413, f"form: more than {longest} bytes.")
    except TimeoutError:
        raise HTTPException(
            408, f"The form was not complete within {FORM_TIMEOUT_S:g} s.", {"connection": "close"}
        ) from None
    return bytes(raw)


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The effect of an action: ``question`` is a sentence, ``button`` the label that confirms it.

    With ``typed``, the name of what is lost, it is confirmed by typing that name.
    """

    question: str
    button: str
    note: str = ""
    many: bool = False
    nothing_to_do: bool = False
    typed: str = ""

    def is_confirmed_by(self, form: Form) -> bool:
        """Whether the form comes from the confirmation page, with the name where one must be typed."""
        return bool(form.value("sure")) and (not self.typed or form.value("typed") in (self.typed, plain(self.typed)))


class Form:
    """The fields of a form, and the ids that were selected."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields
        self.values: Mapping[str, str] = {name: value for name, value in fields if name != "id"}
        self.ids = list(dict.fromkeys(value for name, value in fields if name == "id"))
        if len(self.ids) > MOST_CHOSEN:
            raise BadInput(f"id: {len(self.ids)} were chosen; at most {MOST_CHOSEN} at a time.")

    def value(self, name: str) -> str:
        return self.values.get(name, "").strip()

    @classmethod
    async def of(cls, request: Request) -> Form:
        """Reads the form of a request. Raises ``BadInput``, and the errors of ``read_form``."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise BadInput(f"form: {kind or 'nothing'} given; send application/x-www-form-urlencoded.")
        raw = await read_form(request, LONGEST_FORM)
        try:
            return cls(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
        except ValueError as fault:
            if isinstance(fault, BadInput):
                raise
            raise BadInput(f"form: {fault}.") from None
